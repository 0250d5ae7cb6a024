"""Diagnostics on spans, and back."""

from __future__ import annotations

import string
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext

from otel_kernel_trace import attributes
from otel_kernel_trace.diagnostics import CATEGORIES, Diagnostic
from otel_kernel_trace.diagnostics.telling import MAX_TOLD, attributes_of, diagnostic_of, diagnostics_in, tell
from tests.spans import provider_of

_UNDEFINED = Diagnostic(
    tool="nvcc",
    severity="error",
    category="undefined_name",
    message='identifier "entry" is undefined',
    file="sampling.cuh",
    line=311,
    column=7,
    identifier="entry",
    signature='identifier "entry" is undefined',
    code="E20",
    function="kernel",
    log_line=3,
    notes=('detected during instantiation of "f"',),
    figures={"share": 0.5, "rtol": float("inf")},
)

_names = st.text(string.ascii_letters, min_size=1, max_size=8)
_texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=50)
_numbers = st.integers(1, 2**31)


def _told(diagnostics: list[Diagnostic]) -> ReadableSpan:
    seen = InMemorySpanExporter()
    with provider_of(seen) as provider:
        span = provider.get_tracer("t").start_span("s")
        tell(span, diagnostics)
        span.end()
    [done] = seen.get_finished_spans()
    return done


def _warning(number: int) -> Diagnostic:
    return Diagnostic("gcc", "warning", "other", f"w{number}", log_line=number)


@given(
    st.builds(
        Diagnostic,
        tool=_texts,
        severity=st.sampled_from(["error", "warning", "note"]),
        category=st.sampled_from(CATEGORIES),
        message=_texts,
        file=st.none() | _texts,
        line=st.none() | _numbers,
        column=st.none() | _numbers,
        identifier=st.none() | _texts,
        signature=_texts,
        code=st.none() | _texts,
        function=st.none() | _texts,
        log_line=_numbers,
        notes=st.lists(_texts, max_size=5).map(tuple),
        figures=st.dictionaries(_names, st.floats(allow_nan=False), max_size=5),
    )
)
def test_a_diagnostic_comes_back_as_it_was(diagnostic: Diagnostic) -> None:
    assert diagnostic_of(attributes_of(diagnostic)) == diagnostic


def test_a_span_has_the_first_error_the_counts_and_an_event_for_each() -> None:
    span = _told([_warning(1), _UNDEFINED])
    assert span.attributes is not None
    assert dict(span.attributes) == {
        "kernel_trace.diagnostic.tool": "nvcc",
        "kernel_trace.diagnostic.severity": "error",
        "kernel_trace.diagnostic.category": "undefined_name",
        "kernel_trace.diagnostic.message": 'identifier "entry" is undefined',
        "kernel_trace.diagnostic.file": "sampling.cuh",
        "kernel_trace.diagnostic.line": 311,
        "kernel_trace.diagnostic.column": 7,
        "kernel_trace.diagnostic.identifier": "entry",
        "kernel_trace.diagnostic.signature": 'identifier "entry" is undefined',
        "kernel_trace.diagnostic.code": "E20",
        "kernel_trace.diagnostic.function": "kernel",
        "kernel_trace.diagnostic.log_line": 3,
        "kernel_trace.diagnostic.errors": 1,
        "kernel_trace.diagnostic.warnings": 1,
    }
    assert diagnostics_in(span.events) == (_warning(1), _UNDEFINED)


def test_of_many_the_errors_are_told_and_all_are_counted() -> None:
    span = _told([_warning(number) for number in range(1, 1000)] + [_UNDEFINED])
    assert span.attributes is not None
    assert span.attributes[attributes.DIAGNOSTIC_WARNINGS] == 999
    told = diagnostics_in(span.events)
    assert len(told) == MAX_TOLD
    assert _UNDEFINED in told


def test_nothing_wrong_leaves_the_span_as_it_is() -> None:
    span = _told([])
    assert not span.attributes
    assert not span.events


def test_a_span_that_is_not_recorded_costs_nothing() -> None:
    tell(NonRecordingSpan(SpanContext(1, 1, False)), [_UNDEFINED])


def test_what_can_not_be_sent_is_escaped_and_what_is_long_is_cut() -> None:
    told = diagnostic_of(attributes_of(Diagnostic("gcc", "error", "other", "\udcff" + "x" * 10_000)))
    assert told.message.startswith("\\udcffxxx")
    assert len(told.message.encode()) < 3000


def test_attributes_of_a_stranger_are_taken_as_far_as_they_can_be() -> None:
    strange: Mapping[str, object] = {
        attributes.DIAGNOSTIC_TOOL: 5,
        attributes.DIAGNOSTIC_SEVERITY: "fatal",
        attributes.DIAGNOSTIC_CATEGORY: ["shape"],
        attributes.DIAGNOSTIC_LINE: "12",
        attributes.DIAGNOSTIC_COLUMN: True,
        attributes.DIAGNOSTIC_NOTES: ["a", 1],
        attributes.DIAGNOSTIC_FIGURE_PREFIX + "share": "much",
    }
    told = diagnostic_of(strange)  # type: ignore[arg-type]  # what an index of a stranger's may hold
    assert told == Diagnostic("", "error", "other", "", notes=("a",))
