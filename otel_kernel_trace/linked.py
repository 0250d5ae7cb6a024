"""Short spans for a backend, with links to the files that have the whole texts."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from urllib.parse import quote

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.modelcalls import is_model_call
from otel_kernel_trace.record import attributes_of, with_attributes
from otel_kernel_trace.reference import SIZE, URL, Reference
from otel_kernel_trace.settings import LINKED_VARIABLE, read_link_settings
from otel_kernel_trace.written import written_of

_logger = logging.getLogger("otel_kernel_trace")

_OURS = "kernel_trace."


class LinkedSpanExporter(SpanExporter):
    """Sends spans on to another exporter with previews for long texts, and references to the whole ones.

    A part of an action (``kernel_trace.part.prompt``) that is longer than ``preview_chars``
    is cut to that, and where its file is in place there are beside it
    ``kernel_trace.part.prompt.path`` (below the tree's root, which ``kernel_trace.log_dir``
    tells), ``.sha256`` and ``.size`` (of the file, in bytes), and with a ``link_base``
    ``.url``. References need a :class:`~otel_kernel_trace.KernelTraceSpanProcessor` in the
    same provider; without one a cut text has its ``.size`` alone. Long texts of model calls
    are cut likewise. Other spans are sent on as they are.

    The spans themselves stay as they are: copies are sent. Thread-safe if the exporter is.

    Args:
        exporter: any exporter, as of OTLP.
        preview_chars: what is left of a long text, at least 0. Environment:
            ``OTEL_EXPORTER_KERNEL_TRACE_PREVIEW_CHARS``; default 1024.
        link_base: URL under which the tree's root can be opened in a browser, as
            ``https://files.example/kernels/`` or ``file:///data/kernels/``. Environment:
            ``OTEL_EXPORTER_KERNEL_TRACE_LINK_BASE``.

    Raises:
        ValueError, TypeError: an argument can't be used.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        preview_chars: int | None = None,
        link_base: str | None = None,
    ) -> None:
        self._exporter = exporter
        settings = read_link_settings(preview_chars, link_base)
        self._preview_chars = settings.preview_chars
        self._link_base = settings.link_base

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send previews on; the result is the other exporter's."""
        return self._exporter.export([self._shortened(span) for span in spans])

    def shutdown(self) -> None:
        """Shut the other exporter down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """What the other exporter says."""
        return self._exporter.force_flush(timeout_millis)

    def _shortened(self, span: ReadableSpan) -> ReadableSpan:
        try:
            given = attributes_of(span)
            events = [self._shortened_event(event) for event in span.events]
            is_ours = any(key.startswith(_OURS) for key in given)
            shown = (
                self._previews(given, self._references(span)) if is_ours or is_model_call(given) else given
            )
            if shown is given and all(new is old for new, old in zip(events, span.events, strict=True)):
                return span
            return with_attributes(span, shown, events)
        except Exception:
            _logger.exception("span %.100r is sent on as it is", span.name)
            return span

    def _previews(
        self, given: Mapping[str, AttributeValue], references: Mapping[str, Reference]
    ) -> Mapping[str, AttributeValue]:
        shown: dict[str, AttributeValue] = {}
        for name, value in given.items():
            if name == attributes.LOG_DIR or self._is_short(value):
                shown[name] = value
                continue
            preview, size = self._preview(value)
            shown[name] = preview
            reference = references.get(name)
            if reference is None:
                shown[name + SIZE] = size
            else:
                shown.update(reference.attributes(name))
                if self._link_base:
                    shown[name + URL] = self._link_base + quote(reference.path)
        return shown if len(shown) > len(given) else given

    def _is_short(self, value: AttributeValue) -> bool:
        if isinstance(value, (str, bytes)):
            return len(value) <= self._preview_chars
        if isinstance(value, (Mapping, list, tuple)):
            return len(value) == 0 or len(str(value)) <= self._preview_chars
        return True

    def _preview(self, value: AttributeValue) -> tuple[str, int]:
        """The beginning of a text, and the bytes of it all."""
        text = value if isinstance(value, str) else attributes.text(value)
        return text[: self._preview_chars], len(text.encode("utf-8", "surrogatepass"))

    def _shortened_event(self, event: Event) -> Event:
        given = event.attributes or {}
        if all(self._is_short(value) for value in given.values()):
            return event
        return Event(event.name, self._previews(given, {}), event.timestamp)

    def _references(self, span: ReadableSpan) -> Mapping[str, Reference]:
        for written in written_of(span).values():
            if written is not None:
                return written.references
        return {}


class LinkedSpanExporterFromEnvironment(LinkedSpanExporter):
    """For ``OTEL_TRACES_EXPORTER=kernel_trace_linked``: around the exporter that the environment names.

    ``OTEL_EXPORTER_KERNEL_TRACE_LINKED`` has a name as ``OTEL_TRACES_EXPORTER`` takes it;
    default ``otlp``, over the protocol of ``OTEL_EXPORTER_OTLP_TRACES_PROTOCOL`` or
    ``OTEL_EXPORTER_OTLP_PROTOCOL``. Where there is none of that name, that is logged and
    nothing is sent: to raise here would take the program's other exporters down.
    """

    def __init__(self) -> None:
        super().__init__(_exporter_of_environment())


def _exporter_of_environment() -> SpanExporter:
    name = os.environ.get(LINKED_VARIABLE, "").strip() or "otlp"
    if name == "otlp":
        protocol = (
            os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "").strip()
            or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip()
            or "grpc"
        )
        name = "otlp_proto_http" if protocol == "http/protobuf" else "otlp_proto_grpc"
    try:
        [entry_point] = entry_points(group="opentelemetry_traces_exporter", name=name)
        made = entry_point.load()()
    except Exception as error:  # noqa: BLE001 - its constructor may be anybody's
        _logger.error(
            "no spans are sent: the exporter %r of %s can't be had: %r", name, LINKED_VARIABLE, error
        )
        return _Nowhere()
    return made if isinstance(made, SpanExporter) else _Nowhere()


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        pass
