"""What is known of a span that has not ended, beside what the SDK keeps of it.

The SDK cuts attributes at its limits and drops the oldest; what came through this
package's own API is remembered here whole. A processor remembers what it did when the
span began. All of it goes when the span object does, whether it ended, was dropped
or never ended.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, Tracer
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.reference import Begun
from otel_kernel_trace.sampling import recording_tracer
from otel_kernel_trace.within import Within, within

_Key = tuple[int, int]
"""Trace id and span id."""


class Live(weakref.ref[Span]):
    """What is known of one span. A reference to the span that does not keep it."""

    __slots__ = ("at_start", "begun", "derived", "is_ours", "key", "parent", "told", "whole", "within")

    def __init__(self, span: Span, _: Callable[[weakref.ref[Span]], None]) -> None:
        context = span.get_span_context()
        self.key: _Key = (context.trace_id, context.span_id)
        self.whole: dict[str, AttributeValue] = {}
        """Attributes as they were before the SDK's limits."""
        self.at_start: Mapping[str, AttributeValue] = {}
        """Attributes that it was given at its start, as the SDK had them then."""
        self.is_ours = False
        """Whether the span was made through this package's API, so that ``whole`` has all of it."""
        self.begun: dict[str, Begun | None] = {}
        """By ``log_dir``, what a processor put on disk when the span began."""
        self.parent: Live | None = None
        """What is known of the parent span, if it is of this process."""
        self.within: Within | None = None
        """The innermost action of a KernelTracer that it began in, with a span or without."""
        self.derived: set[str] = set()
        """Names of attributes that came from model calls inside."""
        self.told: Mapping[str, str] = {}
        """Texts with secrets that were counted when the span began, by where they are."""

    # One object a span, and compared as such, not as the spans they refer to.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


_live: dict[_Key, Live] = {}


class _Fork:
    def after_fork(self) -> None:
        # What is on disk of an action that began before the fork is the parent's to go on with.
        for live in list(_live.values()):
            live.begun = dict.fromkeys(live.begun)


_fork = _Fork()
after_fork_in_child(_fork)


class _Coming(threading.local):
    name = ""
    attributes: Mapping[str, AttributeValue] | None = None


_coming = _Coming()


def _forget(reference: weakref.ref[Span]) -> None:
    if isinstance(reference, Live) and _live.get(reference.key) is reference:
        del _live[reference.key]


def start_span(
    tracer: Tracer,
    name: str,
    context: Context | None,
    attributes: Mapping[str, AttributeValue],
    links: Sequence[Link] = (),
    start_time: int | None = None,
) -> Span:
    """Start a span of this package's, and remember its attributes whole, for processors too."""
    _coming.name, _coming.attributes = name, attributes
    try:
        span = tracer.start_span(name, context, attributes=attributes, links=links, start_time=start_time)
        if not span.is_recording():
            recording = recording_tracer(tracer, span.get_span_context())
            if recording is not None:
                span = recording.start_span(
                    name, context, attributes=attributes, links=links, start_time=start_time
                )
    finally:
        _coming.attributes = None
    if span.is_recording():
        live = began(span)
        _remember(live, attributes)
        live.within = within(context)
    return span


def set_attributes(span: Span, attributes: Mapping[str, AttributeValue]) -> None:
    """Set attributes of a span of this package's, and remember them whole."""
    if span.is_recording():
        live = began(span)
        for name in attributes:
            live.derived.discard(name)
        live.whole.update(attributes)
    span.set_attributes(attributes)


def remember_missing(span: Span, name: str, value: AttributeValue) -> None:
    """Remember an attribute of a span of this package's that nobody has given."""
    if span.is_recording():
        began(span).whole.setdefault(name, value)


def whole_of(span: Span) -> Mapping[str, AttributeValue]:
    """What came to a span of this package's through its API; nothing for one that is not recorded."""
    return began(span).whole if span.is_recording() else {}


def began(span: Span) -> Live:
    """What is known of a span that is being recorded; asked in its first moment, it is made."""
    context = span.get_span_context()
    live = _live.get((context.trace_id, context.span_id))
    if live is None or live() is not span:
        live = Live(span, _forget)
        _live[live.key] = live
        if _coming.attributes is not None and _coming.name == getattr(span, "name", None):
            _remember(live, _coming.attributes)
            _coming.attributes = None
    return live


def known(trace_id: int, span_id: int) -> Live | None:
    """What is known of the span of these ids, while it is there."""
    return _live.get((trace_id, span_id))


def _remember(live: Live, attributes: Mapping[str, AttributeValue]) -> None:
    live.whole.update(attributes)
    live.is_ours = True


class Whole(NamedTuple):
    """Attributes of a span before the SDK's limits, as far as they are known."""

    attributes: Mapping[str, AttributeValue]
    known: Container[str]
    """Names of those that are known to be whole."""
    is_all: bool
    """Whether no attribute of this package's can be missing."""


def whole(trace_id: int, span_id: int, seen: Mapping[str, AttributeValue]) -> Whole:
    """Attributes of a span before the SDK's limits.

    Args:
        trace_id, span_id: of the span.
        seen: the attributes that the SDK has of it. What was set there by other ways and
            after counts as it stands.
    """
    live = _live.get((trace_id, span_id))
    if live is None or not (live.whole or live.at_start):
        return Whole(seen, (), False)
    merged = {**live.at_start, **seen}
    known = set()
    for name, value in live.whole.items():
        now = seen.get(name)
        if now is None or now is value or is_cut_of(now, value):
            merged[name] = value
            known.add(name)
    return Whole(merged, known, live.is_ours)


def is_cut_of(now: AttributeValue, value: AttributeValue) -> bool:
    """Whether ``now`` is what a limit may have left of ``value``."""
    return isinstance(now, str) and isinstance(value, str) and value.startswith(now)
