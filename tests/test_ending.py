"""What is done just before a span ends."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span

from otel_kernel_trace.ending import before_end

tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")


def attributes_of(span: Span) -> dict[str, object]:
    assert isinstance(span, ReadableSpan)
    return dict(span.attributes or {})


def test_attributes_can_still_be_set_and_processors_see_them() -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    span = provider.get_tracer("test").start_span("a")
    before_end(span, lambda ending: ending.set_attribute("last", 1))
    span.end(end_time=span.start_time + 5)  # type: ignore[attr-defined]  # the SDK's has one
    (ended,) = memory.get_finished_spans()
    assert dict(ended.attributes or {}) == {"last": 1}
    assert ended.end_time == (ended.start_time or 0) + 5


def test_whoever_ends_the_span() -> None:
    with tracer.start_as_current_span("by a block") as by_block:
        before_end(by_block, lambda ending: ending.set_attribute("last", 1))
    with contextlib.suppress(ValueError), tracer.start_as_current_span("by an error") as by_error:
        before_end(by_error, lambda ending: ending.set_attribute("last", 1))
        raise ValueError
    assert attributes_of(by_block) == {"last": 1}
    assert attributes_of(by_error)["last"] == 1


def test_once_and_in_turn() -> None:
    called: list[str] = []
    span = tracer.start_span("a")
    before_end(span, lambda _: called.append("first"))
    before_end(span, lambda _: called.append("second"))
    span.end()
    span.end()
    assert called == ["second", "first"]


def test_an_error_in_there_does_not_keep_the_span_from_ending() -> None:
    span = tracer.start_span("a")
    before_end(span, lambda _: 1 / 0)
    span.end()
    assert not span.is_recording()


def test_the_span_goes_when_nobody_has_it() -> None:
    span = tracer.start_span("a")
    before_end(span, print)
    before_end(span, print)
    reference = weakref.ref(span)
    gc.disable()
    try:
        del span
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("span", [trace.INVALID_SPAN, trace.NonRecordingSpan(trace.INVALID_SPAN_CONTEXT)])
def test_a_span_that_is_not_recorded_does_nothing(span: Span) -> None:
    called: list[Span] = []
    before_end(span, called.append)
    span.end()
    assert called == []
    span.__dict__.pop("end", None)
