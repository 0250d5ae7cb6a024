"""Spans that OpenTelemetry's exporters can encode: one that they can't costs them the whole request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Link, Status
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.record import attributes_of

_TOO_LARGE = 2**63


def ended(span: ReadableSpan) -> ReadableSpan:
    """A span with an end: the protocol has none without."""
    if span.end_time is not None:
        return span
    given = {**attributes_of(span), attributes.PENDING: True}
    return _copy(span, given=given, end_time=span.start_time)


def encodable(span: ReadableSpan) -> ReadableSpan:
    """A span that protobuf can hold: it refuses lone surrogates, and all of the request with them."""
    given = _encodable_attributes(span.attributes)
    events = [Event(_text(e.name), _encodable_attributes(e.attributes), e.timestamp) for e in span.events]
    links = [Link(link.context, _encodable_attributes(link.attributes)) for link in span.links]
    status = Status(span.status.status_code, _text(span.status.description or "") or None)
    is_same = given == span.attributes and _text(span.name) == span.name
    is_same = is_same and status.description == (span.status.description or None)
    is_same = is_same and all(
        new.name == old.name and new.attributes == (old.attributes or {})
        for new, old in zip(events, span.events, strict=True)
    )
    is_same = is_same and all(
        new.attributes == (old.attributes or {}) for new, old in zip(links, span.links, strict=True)
    )
    if is_same:
        return span
    return _copy(span, name=_text(span.name), given=given, events=events, links=links, status=status)


def _copy(
    span: ReadableSpan,
    *,
    given: Mapping[str, AttributeValue],
    name: str | None = None,
    events: Sequence[Event] | None = None,
    links: Sequence[Link] | None = None,
    status: Status | None = None,
    end_time: int | None = None,
) -> ReadableSpan:
    if span.dropped_attributes:
        bounded = BoundedAttributes(attributes=given)
        bounded.dropped = span.dropped_attributes
        given = bounded
    return ReadableSpan(
        span.name if name is None else name,
        span.context,
        span.parent,
        span.resource,
        attributes=given,
        events=span.events if events is None else events,
        links=span.links if links is None else links,
        kind=span.kind,
        status=span.status if status is None else status,
        start_time=span.start_time,
        end_time=span.end_time if end_time is None else end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _encodable_attributes(given: Mapping[str, AttributeValue] | None) -> dict[str, AttributeValue]:
    return {_text(name): _encodable_value(value) for name, value in (given or {}).items()}


def _encodable_value(value: Any) -> Any:
    # Values nest as those of JSON do.
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int) and not isinstance(value, bool) and not -_TOO_LARGE <= value < _TOO_LARGE:
        return str(value)
    if isinstance(value, Mapping):
        return {_text(str(name)): _encodable_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_encodable_value(item) for item in value)
    return value


def _text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
