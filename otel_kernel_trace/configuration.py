"""Adding the processor to the provider that a program has."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes

from otel_kernel_trace.exporter import KernelTraceSpanExporter
from otel_kernel_trace.layout import Layout
from otel_kernel_trace.processor import KernelTraceSpanProcessor
from otel_kernel_trace.settings import LOG_DIR_VARIABLE, REDACT_VARIABLE, OnExisting, read_settings

if TYPE_CHECKING:
    from otel_kernel_trace.redaction.redactor import Redactor

_logger = logging.getLogger("otel_kernel_trace")
_lock = threading.Lock()


def configure(
    log_dir: str | os.PathLike[str] | None = None,
    *,
    tracer_provider: TracerProvider | None = None,
    layout: str | Layout | None = None,
    on_existing: OnExisting | None = None,
    file_mode: int | str | None = None,
    level: str | None = None,
    redact: bool | Redactor | None = None,
    audit_dir: str | os.PathLike[str] | None = None,
) -> TracerProvider:
    """Have every action of the program written to a tree, beside whatever exporters it has.

    Adds a :class:`KernelTraceSpanProcessor` to the provider, before its other processors, so
    that none of them can come between an action and its files. What the provider's sampler
    drops is recorded from then on, and not sampled: backends get their share as before, the
    tree gets all. May be called again: a provider has one processor for a tree.

    Thread-safe.

    Args:
        log_dir: as of :class:`KernelTraceSpanExporter`; so are ``layout``, ``on_existing``,
            ``file_mode``, ``level``, ``redact`` and ``audit_dir``. With ``redact`` the provider's other
            processors get ended spans without secrets, too; given later, it holds from then on.
        tracer_provider: default: the global one; where there is none yet, one is made and set.

    Returns:
        The provider.

    Raises:
        ValueError, TypeError: an argument can't be used, or the global provider is not the
            SDK's and takes no processors.
    """
    exporter = KernelTraceSpanExporter(
        log_dir,
        layout=layout,
        on_existing=on_existing,
        file_mode=file_mode,
        level=level,
        redact=redact,
        audit_dir=audit_dir,
    )
    with _lock:
        provider = tracer_provider or _global_provider()
        there = [
            processor.exporter
            for processor in _processors(provider)
            if isinstance(processor, KernelTraceSpanProcessor)
            and processor.exporter.log_dir == exporter.log_dir
        ]
        for other in there:
            if redact is not None and exporter.guard is not None:
                other.guard = exporter.guard
        if not there:
            _add_first(provider, KernelTraceSpanProcessor(exporter))
        elif any(option is not None for option in (layout, on_existing, file_mode, level)):
            _logger.warning("%s is being written already; options given now are ignored", exporter.log_dir)
        _keep_recording(provider)
    return provider


def attach() -> None:
    """For ``opentelemetry-instrument``, which calls it when the provider has been built.

    Where ``OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR`` names a tree, the processor is added; else
    nothing is done. Never raises.
    """
    try:
        if not os.environ.get(LOG_DIR_VARIABLE, "").strip():
            if os.environ.get(REDACT_VARIABLE) and read_settings(None, None, None, None).redactor is not None:
                _logger.warning(
                    "%s is set and %s is not: secrets are taken out of the files of kernel_trace alone, "
                    "and other exporters get them",
                    REDACT_VARIABLE,
                    LOG_DIR_VARIABLE,
                )
            return
        provider = trace.get_tracer_provider()
        if isinstance(provider, TracerProvider):
            configure(tracer_provider=provider)
        else:
            _logger.warning(
                "%s is set, but nothing has set up a TracerProvider to add to: install "
                "opentelemetry-distro, or call otel_kernel_trace.configure() in the program",
                LOG_DIR_VARIABLE,
            )
    except Exception:
        _logger.exception("nothing will be written below %s", os.environ.get(LOG_DIR_VARIABLE))


def _global_provider() -> TracerProvider:
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        trace.set_tracer_provider(TracerProvider())
        provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        raise TypeError(
            f"the global tracer provider is no SDK TracerProvider but a {type(provider).__name__}"
        )
    return provider


def _processors(provider: TracerProvider) -> tuple[SpanProcessor, ...]:
    """The SDK has no public way to ask, nor to put one first."""
    return tuple(getattr(provider._active_span_processor, "_span_processors", ()))


def _add_first(provider: TracerProvider, processor: SpanProcessor) -> None:
    several = provider._active_span_processor
    provider.add_span_processor(processor)
    lock = getattr(several, "_lock", None)
    there = getattr(several, "_span_processors", None)
    if lock is not None and isinstance(there, tuple):
        with lock:
            others = tuple(other for other in several._span_processors if other is not processor)
            several._span_processors = (processor, *others)


def _keep_recording(provider: TracerProvider) -> None:
    sampler = provider.sampler
    if isinstance(sampler, _RecordingSampler):
        return
    recording = _RecordingSampler(sampler)
    provider.sampler = recording
    # Instrumentations may have theirs already; SDKs before 1.40 do not know them.
    for tracer in list(getattr(provider, "_tracers", {}).values()):
        tracer.sampler = recording


class _RecordingSampler(Sampler):
    """Samples what another sampler does, and records the rest.

    ``AlwaysRecordSampler`` does so too, but older SDKs lack it, and with it a span that is
    not sampled has lost the attributes that it was given at its start.
    https://opentelemetry.io/docs/specs/otel/trace/sdk/#alwaysrecord
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        result = self._sampler.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )
        if result.decision is not Decision.RECORD_AND_SAMPLE:
            given = {**(attributes or {}), **(result.attributes or {})}
            return SamplingResult(Decision.RECORD_ONLY, given, result.trace_state)
        return result

    def get_description(self) -> str:
        return f"RecordingSampler{{{self._sampler.get_description()}}}"
