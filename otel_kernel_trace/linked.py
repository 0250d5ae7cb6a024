"""Short spans for a backend, with links to the files that have the whole texts."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from urllib.parse import quote

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Status
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.modelcalls import is_model_call
from otel_kernel_trace.record import attributes_of, limit_of, text_of, with_attributes
from otel_kernel_trace.reference import SIZE, URL, Reference, Written
from otel_kernel_trace.settings import LINKED_VARIABLE, LOG_DIR_VARIABLE, read_link_settings
from otel_kernel_trace.written import written_of

_logger = logging.getLogger("otel_kernel_trace")

_MAX_BATCH_BYTES = 3_500_000
"""A request of more than 4 MiB is refused over gRPC, and all that is in it lost."""
_MAX_JSON_CHARS = 20_000_000
_MAX_MESSAGES = 8
"""Messages of models are kept readable up to so many times the length of a preview."""
_TEXTS = (
    attributes.PART_PREFIX,
    attributes.VERIFY_SOURCE_PREFIX,
    attributes.VERIFY_RESULT,
    attributes.VERIFY_PROFILE,
    attributes.INCOMPLETE,
    attributes.STAGE_STDOUT,
    attributes.STAGE_STDERR,
    attributes.BUILDER_LOG,
    attributes.LAYER_TIMES,
    *attributes.MESSAGE_PREFIXES,
    "exception.",
)
"""How the names of attributes begin that may hold a long text."""


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
        self._has_warned = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send previews on, in several batches where one could be too long for gRPC.

        Returns:
            What the other exporter says; FAILURE where it says so of one of the batches.
        """
        results = [self._exporter.export(batch) for batch in batches(map(self._shortened, spans))]
        return next((result for result in results if result is not SpanExportResult.SUCCESS), results[0])

    def shutdown(self) -> None:
        """Shut the other exporter down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """What the other exporter says."""
        return self._exporter.force_flush(timeout_millis)

    def _shortened(self, span: ReadableSpan) -> ReadableSpan:
        try:
            given = attributes_of(span)
            log_dir, written = _written(span)
            is_ours = written is not None or any(key.startswith(attributes.PREFIX) for key in given)
            if not (is_ours or is_model_call(given)):
                return span
            references = written.references if written else {}
            shown = self._previews(given, references, limit_of(span))
            if written:
                # Whole, and the tree that the references are to.
                shown = {**shown, attributes.LOG_DIR: log_dir, **written.identity}
                for name, reference in references.items():
                    if name not in given and reference.size:  # a traceback that is the error log, or dropped
                        shown.update(self._reference(name, reference))
            events = [self._shortened_event(event) for event in span.events]
            status = self._shortened_status(span.status)
            is_same = all(new is old for new, old in zip(events, span.events, strict=True))
            if shown == given and is_same and status is span.status:
                return span
            if is_ours and not written_of(span) and shown != given and not self._has_warned:
                self._has_warned = True
                _logger.warning(
                    "texts are cut for a backend, and no tree has them whole: set %s, or call configure()",
                    LOG_DIR_VARIABLE,
                )
            return with_attributes(span, shown, events, status)
        except Exception:
            _logger.exception("span %.100r is sent on as it is", span.name)
            return span

    def _previews(
        self,
        given: Mapping[str, AttributeValue],
        references: Mapping[str, Reference],
        limit: int | None = None,
    ) -> Mapping[str, AttributeValue]:
        shown: dict[str, AttributeValue] = {}
        for name, value in given.items():
            is_cut_by_sdk = isinstance(value, str) and len(value) == limit
            is_text = name.startswith(_TEXTS) and (name != attributes.VERIFY_RESULT or len(str(value)) > 1000)
            if not is_text or (self._is_short(value) and not is_cut_by_sdk):
                shown.setdefault(name, _sendable(value) if isinstance(value, str) else value)
                continue
            shown[name], size = self._preview(name, value)
            reference = references.get(name)
            beside: dict[str, AttributeValue] = {name + SIZE: size}
            if reference is not None:
                beside.update(self._reference(name, reference))
            elif is_cut_by_sdk:
                continue  # nobody knows how long it was
            if not beside.keys() & given.keys():  # else a part is called so
                shown.update(beside)
        return shown

    def _reference(self, name: str, reference: Reference) -> dict[str, AttributeValue]:
        url = {name + URL: self._link_base + quote(reference.path)} if self._link_base else {}
        return {**reference.attributes(name), **url}

    def _is_short(self, value: AttributeValue) -> bool:
        if isinstance(value, (str, bytes)):
            return len(value) <= self._preview_chars
        if isinstance(value, (Mapping, list, tuple)):
            return len(value) == 0 or len(str(value)) <= self._preview_chars
        return True

    def _preview(self, name: str, value: AttributeValue) -> tuple[str, int]:
        """The beginning of a text, and the bytes of it all."""
        if isinstance(value, bytes):
            beginning = value[: 4 * self._preview_chars].decode("utf-8", "surrogateescape")
            return _sendable(beginning[: self._preview_chars]), len(value)
        text = text_of(value)
        size = len(text.encode("utf-8", "backslashreplace"))
        messages = _shortened_messages(text, self._preview_chars) if name.startswith("gen_ai.") else None
        return messages or _sendable(text[: self._preview_chars]), size

    def _shortened_status(self, status: Status) -> Status:
        description = status.description
        if description is None or len(description) <= self._preview_chars:
            return status
        return Status(status.status_code, _sendable(description[: self._preview_chars]))

    def _shortened_event(self, event: Event) -> Event:
        given = event.attributes or {}
        shown = self._previews(given, {})
        return event if shown == given else Event(event.name, shown, event.timestamp)


def _sendable(text: str) -> str:
    """A text without lone surrogates, for which OTLP's exporters fail, and all of the batch with them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _written(span: ReadableSpan) -> tuple[str, Written | None]:
    """A tree that has the span's texts, and what it has."""
    for log_dir, written in written_of(span).items():
        if written is not None:
            return log_dir, written
    return "", None


def _shortened_messages(text: str, most: int) -> str | None:
    """JSON of messages with long texts inside cut, so that a backend can still read it as messages.

    None where it is no such JSON, or would be long all the same.
    """
    if not text.startswith("[") or len(text) > _MAX_JSON_CHARS:
        return None
    try:
        shorter = json.dumps(_shortened(json.loads(text), most), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return None
    return _sendable(shorter) if len(shorter) <= _MAX_MESSAGES * most else None


def _shortened(value: object, most: int) -> object:
    if isinstance(value, str):
        return value[:most]
    if isinstance(value, list):
        return [_shortened(item, most) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(item, most) for key, item in value.items()}
    return value


def batches(spans: Iterable[ReadableSpan]) -> Iterator[list[ReadableSpan]]:
    """Spans in lists that are short enough for a request over gRPC."""
    batch: list[ReadableSpan] = []
    size = 0
    for span in spans:
        more = _bytes_of(span)
        if batch and size + more > _MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += more
    yield batch  # also an empty one: somebody may count calls


def _bytes_of(span: ReadableSpan) -> int:
    """About as many as the span takes on the wire, or more."""
    holders = [span.attributes or {}, *(event.attributes or {} for event in span.events)]
    size = 500 + 100 * (len(span.links) + len(span.events)) + 4 * len(span.status.description or "")
    for holder in holders:
        for key, value in holder.items():
            size += len(key) + 20
            if isinstance(value, str):
                size += len(value) if value.isascii() else 4 * len(value)
            elif isinstance(value, (bytes, list, tuple, Mapping)):
                size += 20 * len(value)
    return size


class LinkedSpanExporterFromEnvironment(LinkedSpanExporter):
    """For ``OTEL_TRACES_EXPORTER=kernel_trace_linked``: around the exporter that the environment names.

    ``OTEL_EXPORTER_KERNEL_TRACE_LINKED`` has a name as ``OTEL_TRACES_EXPORTER`` takes it;
    default ``otlp``, over the protocol of ``OTEL_EXPORTER_OTLP_TRACES_PROTOCOL`` or
    ``OTEL_EXPORTER_OTLP_PROTOCOL``. Where there is none of that name, that is logged and
    nothing is sent: to raise here would take the program's other exporters down.

    Args:
        exporter: its name; default: that of the environment. For configuration files.
        preview_chars, link_base: as of :class:`LinkedSpanExporter`.
    """

    def __init__(
        self, exporter: str | None = None, preview_chars: int | None = None, link_base: str | None = None
    ) -> None:
        super().__init__(_exporter_named(exporter), preview_chars, link_base)


def _exporter_named(given: str | None) -> SpanExporter:
    name = given or os.environ.get(LINKED_VARIABLE, "").strip() or "otlp"
    if name == "kernel_trace_linked":
        _logger.error("no spans are sent: %s is to name another exporter than %r", LINKED_VARIABLE, name)
        return _Nowhere()
    if name == "otlp":
        protocol = (
            os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "").strip()
            or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip()
            or "grpc"
        )
        name = "otlp_proto_http" if protocol == "http/protobuf" else "otlp_proto_grpc"
    try:
        found = list(entry_points(group="opentelemetry_traces_exporter", name=name))
        if not found:
            raise LookupError(
                "no package with it is installed; opentelemetry-exporter-otlp has those of OTLP"
            )
        made = found[0].load()()
    except Exception as error:  # noqa: BLE001 - its constructor may be anybody's
        _logger.error(
            "no spans are sent: the exporter %r of %s can't be had: %r", name, LINKED_VARIABLE, error
        )
        return _Nowhere()
    if not isinstance(made, SpanExporter):
        _logger.error("no spans are sent: %r of %s is no SpanExporter: %r", name, LINKED_VARIABLE, made)
        return _Nowhere()
    return made


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        pass
