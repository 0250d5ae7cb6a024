"""What a log says, on spans and back: the one place that knows how it is written there.

A diagnostic is an event, ``kernel_trace.diagnostic``, whose attributes are those of
:mod:`otel_kernel_trace.attributes`. The span itself has the first error's and the counts, which
backends can search for. The resources of entry functions are one attribute, a JSON list.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, get_args

from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.diagnostics import by_weight, counts, first_error
from otel_kernel_trace.diagnostics.model import CATEGORIES, Category, Diagnostic, Severity
from otel_kernel_trace.live import set_attributes
from otel_kernel_trace.resources import KernelResources

MAX_TOLD: Final = 32
"""Events of a span. A log may have thousands of warnings; the SDK keeps 128 events, and those behind them."""

_MAX_CHARS: Final = 2000
_MAX_NOTES: Final = 16
_MAX_FIGURES: Final = 16
"""What is longer or more is in the log, which is whole."""

_TEXTS: Final = (
    ("file", attributes.DIAGNOSTIC_FILE),
    ("identifier", attributes.DIAGNOSTIC_IDENTIFIER),
    ("signature", attributes.DIAGNOSTIC_SIGNATURE),
    ("code", attributes.DIAGNOSTIC_CODE),
    ("function", attributes.DIAGNOSTIC_FUNCTION),
)
_NUMBERS: Final = (
    ("line", attributes.DIAGNOSTIC_LINE),
    ("column", attributes.DIAGNOSTIC_COLUMN),
    ("log_line", attributes.DIAGNOSTIC_LOG_LINE),
)
_SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
_COUNTS: Final = (
    "registers",
    "spill_stores",
    "spill_loads",
    "stack_frame",
    "shared_memory",
    "constant_memory",
    "barriers",
)
_IN_EVENTS_ALONE: Final = (attributes.DIAGNOSTIC_NOTES, attributes.DIAGNOSTIC_FIGURE_PREFIX)


class _Event(Protocol):
    """What is asked of an SDK's event."""

    @property
    def name(self) -> str: ...

    @property
    def attributes(self) -> Mapping[str, AttributeValue] | None: ...


def attributes_of(diagnostic: Diagnostic) -> dict[str, AttributeValue]:
    """Attributes of the event that tells a diagnostic; what it does not say has none."""
    given: dict[str, AttributeValue] = {
        attributes.DIAGNOSTIC_TOOL: diagnostic.tool,
        attributes.DIAGNOSTIC_SEVERITY: diagnostic.severity,
        attributes.DIAGNOSTIC_CATEGORY: diagnostic.category,
        attributes.DIAGNOSTIC_MESSAGE: _told(diagnostic.message),
    }
    for field, name in _TEXTS:
        text: str | None = getattr(diagnostic, field)
        if text:
            given[name] = _told(text)
    for field, name in _NUMBERS:
        number: int | None = getattr(diagnostic, field)
        if number:
            given[name] = number
    if diagnostic.notes:
        given[attributes.DIAGNOSTIC_NOTES] = [_told(note) for note in diagnostic.notes[:_MAX_NOTES]]
    for key, figure in list(diagnostic.figures.items())[:_MAX_FIGURES]:
        given[attributes.DIAGNOSTIC_FIGURE_PREFIX + key] = float(figure)
    return given


def diagnostic_of(given: Mapping[str, AttributeValue]) -> Diagnostic:
    """The diagnostic that an event's attributes tell; what is of another type than ours counts as missing."""
    severity, category = given.get(attributes.DIAGNOSTIC_SEVERITY), given.get(attributes.DIAGNOSTIC_CATEGORY)
    texts = {field: _text(given.get(name)) for field, name in _TEXTS}
    numbers = {field: _number(given.get(name)) for field, name in _NUMBERS}
    notes = given.get(attributes.DIAGNOSTIC_NOTES)
    start = len(attributes.DIAGNOSTIC_FIGURE_PREFIX)
    figures = {
        name[start:]: float(value)
        for name, value in given.items()
        if name.startswith(attributes.DIAGNOSTIC_FIGURE_PREFIX) and isinstance(value, (int, float))
    }
    return Diagnostic(
        tool=_text(given.get(attributes.DIAGNOSTIC_TOOL)) or "",
        severity=_severity(severity),
        category=_category(category),
        message=_text(given.get(attributes.DIAGNOSTIC_MESSAGE)) or "",
        file=texts["file"],
        line=numbers["line"],
        column=numbers["column"],
        identifier=texts["identifier"],
        signature=texts["signature"] or "",
        code=texts["code"],
        function=texts["function"],
        log_line=numbers["log_line"] or 0,
        notes=tuple(note for note in notes if isinstance(note, str))
        if isinstance(notes, (list, tuple))
        else (),
        figures=MappingProxyType(figures),
    )


def diagnostics_in(events: Iterable[_Event]) -> tuple[Diagnostic, ...]:
    """The diagnostics among a span's events, in the order in which they were told."""
    return tuple(
        diagnostic_of(event.attributes or {}) for event in events if event.name == attributes.DIAGNOSTIC
    )


def tell(span: Span, diagnostics: Sequence[Diagnostic]) -> None:
    """Put what a log says is wrong on a span: its events, the first error's attributes, and the counts.

    They are told in the order given. Of more than :data:`MAX_TOLD` warnings and notes go first; the
    counts are of all.
    """
    if not diagnostics or not span.is_recording():
        return
    set_attributes(span, of_span(diagnostics))
    for diagnostic in worth_telling(diagnostics):
        span.add_event(attributes.DIAGNOSTIC, attributes_of(diagnostic))


def of_span(diagnostics: Sequence[Diagnostic]) -> dict[str, AttributeValue]:
    """Attributes of a span whose log says that: the first error's, and the counts."""
    first, (errors, warnings) = first_error(diagnostics), counts(diagnostics)
    given = {} if first is None else attributes_of(first)
    return {
        **{name: value for name, value in given.items() if not name.startswith(_IN_EVENTS_ALONE)},
        attributes.DIAGNOSTIC_ERRORS: errors,
        attributes.DIAGNOSTIC_WARNINGS: warnings,
    }


def worth_telling(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Those that are events, in the log's order: of more than :data:`MAX_TOLD` the weightiest."""
    if len(diagnostics) <= MAX_TOLD:
        return list(diagnostics)
    chosen = {id(one) for one in by_weight(diagnostics)[:MAX_TOLD]}
    return [one for one in diagnostics if id(one) in chosen]


def _told(text: str) -> str:
    """A text as it can be sent: lone surrogates, which OTLP has not, as escapes."""
    return text[:_MAX_CHARS].encode("utf-8", "backslashreplace").decode()


def tell_resources(span: Span, resources: Sequence[KernelResources]) -> None:
    """Put on a span what each entry function needs of the device."""
    if resources and span.is_recording():
        set_attributes(span, of_resources(resources))


def of_resources(resources: Sequence[KernelResources]) -> dict[str, AttributeValue]:
    """The attribute for that; none where there are no entry functions."""
    told = [
        {name: value for name, value in dataclasses.asdict(one).items() if value not in (None, "")}
        for one in resources
    ]
    return {attributes.RESOURCES: json.dumps(told)} if told else {}


def resources_in(given: Mapping[str, AttributeValue]) -> tuple[KernelResources, ...]:
    """The resources that a span's attributes tell. What is of another type than ours is taken for missing."""
    text = given.get(attributes.RESOURCES)
    try:
        told = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        told = None
    entries = told if isinstance(told, list) else []
    return tuple(_resources_of(entry) for entry in entries if isinstance(entry, dict))


def _resources_of(entry: dict[str, object]) -> KernelResources:
    time = entry.get("compile_time")
    numbers = {name: value for name in _COUNTS if type(value := entry.get(name)) is int}
    texts = {name: value for name in ("entry", "arch") if isinstance(value := entry.get(name), str)}
    return KernelResources(
        texts.get("entry", ""), texts.get("arch", ""), **numbers, compile_time=_seconds(time)
    )


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _severity(value: AttributeValue) -> Severity:
    return next((severity for severity in _SEVERITIES if severity == value), "error")


def _category(value: AttributeValue) -> Category:
    return next((category for category in CATEGORIES if category == value), "other")


def _text(value: AttributeValue) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: AttributeValue) -> int | None:
    return value if type(value) is int and value > 0 else None
