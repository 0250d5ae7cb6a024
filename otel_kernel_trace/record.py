"""What the exporter reads from one finished span."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeVar, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Link, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.actions import Agent, agent_of
from otel_kernel_trace.live import Whole, whole

_Item = TypeVar("_Item", Event, Link)

_PREFIX_LENGTH = len(attributes.PART_PREFIX)
_MAX_STEP = 2**31 - 1
"""A larger number is no step: names would grow with it, and nothing could follow."""

_MAX_COPIES = 1_000_000

_UNKNOWN = "unknown"

TEXT_PREFIXES = (attributes.PART_PREFIX, "kernel_trace.verify.")
"""How the names of attributes begin that may be long texts of ours."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What a Verifier compared: the three sources, by what they are written in."""

    framework: str = ""
    impl_type: str = ""
    reference: str | None = None
    implementation: str | None = None
    script: str | None = None


class Record(NamedTuple):
    """Identity and texts of one action. A tuple: one is made for every span, in the caller's time."""

    op_name: str
    task_id: str
    action_type: str
    """Name of an ``ActionType`` member, or the user's name for an agent."""
    step: int | None = None
    """None where the span does not say; the exporter then counts."""
    parts: Mapping[str, str] = MappingProxyType({})
    """Text by part name. A part that was not given is missing, an empty one is there."""
    verification: Verification | None = None
    written_in: str | None = None
    """Absolute path of the tree that already holds the record, if one does."""
    trace_id: int = 0
    """128-bit id of the trace, 0 where the span has none."""
    span_id: int = 0
    """64-bit id of the span, 0 where it has none."""
    is_root: bool = False
    """Whether the span has no parent: then its trace says nothing of the run it is of."""
    judges: int = 0
    """Id of the span that a Conductor's span judges, 0 where it does not say."""
    copy: int = 1
    """Which of several judgements of its step a Conductor's action was."""
    is_pending: bool = False
    """Whether the action had begun and not ended."""
    is_document: bool = False
    """Whether the result is no reply but what was parsed out of one."""
    incomplete: str = ""
    """What the SDK's limits are known to have cut, a line each."""
    is_error: bool = False
    """Whether the status of the span is ERROR."""
    is_partial: bool = False
    """Whether texts are left out for the action's level; what is not there was not missing."""
    attributes: Mapping[str, AttributeValue] = MappingProxyType({})
    """All attributes of the span, before the SDK's limits as far as they are known."""


def read_record(span: ReadableSpan, known: Whole | None = None) -> Record | None:
    """The record of an action's span, None for any other span.

    A span is an action when it has an action type or a part; the root span of a task
    has neither. Values of unexpected types are written as text rather than refused.

    Args:
        span: any span.
        known: its attributes before the SDK's limits, where the caller has them.
    """
    context = span.context
    if known is None:
        known = known_attributes(span)
    given = known.attributes
    action_type = given.get(attributes.ACTION_TYPE)
    parts = {
        key[_PREFIX_LENGTH:]: value if type(value) is str else text_of(value)
        for key, value in given.items()
        if key.startswith(attributes.PART_PREFIX) and value is not None
    }
    if action_type is None and not parts:
        return None
    if span.status.status_code is StatusCode.ERROR and not parts.get(attributes.ERROR_LOG):
        _add_exception(parts, span.events)
    action = span.name if action_type is None else text_of(action_type)
    written_in = given.get(attributes.LOG_DIR)
    return Record(
        op_name=_name(given.get(attributes.OP_NAME)),
        task_id=_name(given.get(attributes.TASK_ID)),
        action_type=action,
        step=_step(given.get(attributes.STEP)),
        parts=parts,
        verification=_verification(given),
        written_in=written_in if isinstance(written_in, str) else None,
        trace_id=context.trace_id if context else 0,
        span_id=context.span_id if context else 0,
        is_root=span.parent is None,
        judges=_judged(span.links) if agent_of(action) is Agent.CONDUCTOR else 0,
        copy=_copy(given.get(attributes.COPY)),
        is_pending=given.get(attributes.PENDING) is True,
        is_document=given.get(attributes.RESULT_IS_DOCUMENT) is True,
        incomplete=incomplete_of(span, known),
        is_error=span.status.status_code is StatusCode.ERROR,
        attributes=given,
    )


def known_attributes(span: ReadableSpan) -> Whole:
    """The span's attributes before the SDK's limits, as far as they are known."""
    context, seen = span.context, attributes_of(span)
    return whole(context.trace_id, context.span_id, seen) if context else Whole(seen, (), False)


def incomplete_of(span: ReadableSpan, known: Whole) -> str:
    """What the SDK's limits cut of the texts and could not be made good."""
    told = known.attributes.get(attributes.INCOMPLETE)
    lines = text_of(told).split("\n") if told else []
    limit = limit_of(span)
    if limit is not None:
        lines += [
            f"{name}: cut to {limit} characters by the SDK's limit, or just as long"
            for name, value in known.attributes.items()
            if name.startswith(TEXT_PREFIXES)
            and isinstance(value, str)
            and len(value) == limit
            and name not in known.known
        ]
    if span.dropped_attributes and not known.is_all:
        lines.append(f"{span.dropped_attributes} attributes were dropped at the SDK's limit of their number")
    return "\n".join(dict.fromkeys(lines))


def limit_of(span: ReadableSpan) -> int | None:
    """The number of characters at which the SDK cuts the span's attributes, None where it does not."""
    limit = getattr(getattr(span, "_attributes", None), "max_value_len", None)  # it says so nowhere else
    return limit if isinstance(limit, int) else None


def is_action(given: Mapping[str, AttributeValue]) -> bool:
    """Whether attributes are those of an action: a type or a part."""
    return attributes.ACTION_TYPE in given or any(key.startswith(attributes.PART_PREFIX) for key in given)


def is_stage(given: Mapping[str, AttributeValue]) -> bool:
    """Whether attributes that are no action's are those of a stage."""
    return any(key.startswith(attributes.STAGE) for key in given)


def attributes_of(span: ReadableSpan) -> Mapping[str, AttributeValue]:
    """The span's attributes as a plain dict.

    The SDK's own mapping takes a lock for every look-up, which is half the cost of reading a span.
    """
    given = span.attributes
    if not given:
        return {}
    copy = getattr(given, "copy", None)
    return cast("dict[str, AttributeValue]", copy()) if callable(copy) else dict(given)


def with_attributes(
    span: ReadableSpan,
    given: Mapping[str, AttributeValue],
    events: Sequence[Event] | None = None,
    status: Status | None = None,
    *,
    is_all: bool = False,
) -> ReadableSpan:
    """A copy of a span with other attributes, and other events and status where they are given.

    It tells how many attributes were dropped, unless these are all that matter.
    """
    if span.dropped_attributes and not is_all:
        bounded = BoundedAttributes(attributes=given)
        bounded.dropped = span.dropped_attributes
        given = bounded
    return ReadableSpan(
        span.name,
        span.context,
        span.parent,
        span.resource,
        attributes=given,
        events=with_dropped(span.events if events is None else events, span.dropped_events),
        links=with_dropped(span.links, span.dropped_links),
        kind=span.kind,
        status=status or span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def with_dropped(items: Sequence[_Item], dropped: int) -> Sequence[_Item]:
    """Items that say how many are missing, as a span's own do."""
    if not dropped:
        return items
    bounded: BoundedList[_Item] = BoundedList(max(len(items), 1))
    bounded.extend(items)
    bounded.dropped = dropped
    return bounded


def _verification(given: Mapping[str, AttributeValue]) -> Verification | None:
    reference = given.get(attributes.VERIFY_SOURCE_REFERENCE)
    implementation = given.get(attributes.VERIFY_SOURCE_IMPLEMENTATION)
    script = given.get(attributes.VERIFY_SOURCE_SCRIPT)
    if reference is None and implementation is None and script is None:
        return None
    return Verification(
        framework=_name(given.get(attributes.VERIFY_FRAMEWORK), "reference"),
        impl_type=_name(given.get(attributes.VERIFY_IMPL_TYPE), "implementation"),
        reference=None if reference is None else text_of(reference),
        implementation=None if implementation is None else text_of(implementation),
        script=None if script is None else text_of(script),
    )


def _judged(links: Sequence[Link]) -> int:
    for link in links:
        if link.attributes and link.attributes.get(attributes.JUDGES):
            return link.context.span_id
    return 0


def _add_exception(parts: dict[str, str], events: Sequence[Event]) -> None:
    """An action that failed by an exception and logged nothing has the traceback for an error log."""
    for event in events:
        stacktrace = event.attributes.get("exception.stacktrace") if event.attributes else None
        if stacktrace is not None and event.name == "exception":
            parts[attributes.ERROR_LOG] = text_of(stacktrace)


def _copy(value: object) -> int:
    return value if type(value) is int and 1 <= value < _MAX_COPIES else 1


def _step(value: object) -> int | None:
    if type(value) is int and 0 <= value <= _MAX_STEP:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 11:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_STEP:
        return value
    return None


def _name(value: object, default: str = _UNKNOWN) -> str:
    return default if value is None else text_of(value)


def text_of(value: object) -> str:
    """An attribute's value as the text that its file has."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=_jsonable)
    return str(value)


def _jsonable(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else text_of(value)
