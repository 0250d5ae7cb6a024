"""Spans for tests, made by the SDK as any program makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import Tracer

from otel_kernel_trace import attributes


@contextmanager
def provider_of(*exporters: SpanExporter) -> Iterator[TracerProvider]:
    """A provider whose spans go to the exporters when they end."""
    provider = TracerProvider(shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider
    provider.shutdown()


def action_span(
    action_type: str = "DO_CODER",
    *,
    op_name: str = "swish",
    task_id: str = "1",
    step: int | None = None,
    parts: dict[str, str] | None = None,
    more: Mapping[str, str | int] | None = None,
    tracer: Tracer | None = None,
) -> ReadableSpan:
    """An action's span with its attributes set by hand, ended."""
    given: attributes.Attributes = {
        "kernel_trace.op_name": op_name,
        "kernel_trace.task_id": task_id,
        "kernel_trace.action_type": action_type,
        **{f"kernel_trace.part.{name}": text for name, text in (parts or {}).items()},
        **(more or {}),
    }
    if step is not None:
        given["kernel_trace.step"] = step
    maker = tracer or TracerProvider(shutdown_on_exit=False).get_tracer("test")
    span = maker.start_span("an action", attributes=given)
    span.end()
    assert isinstance(span, ReadableSpan)
    return span
