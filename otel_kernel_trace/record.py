"""What the exporter reads from one finished span."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes

_PREFIX_LENGTH = len(attributes.PART_PREFIX)
_MAX_STEP = 2**31 - 1
"""A larger number is no step: names would grow with it, and nothing could follow."""

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verification:
    """What a Verifier compared: the three sources, by what they are written in."""

    framework: str = ""
    impl_type: str = ""
    reference: str | None = None
    implementation: str | None = None
    script: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Identity and texts of one action."""

    op_name: str
    task_id: str
    action_type: str
    """Name of an ``ActionType`` member, or the user's name for an agent."""
    step: int | None = None
    """None where the span does not say; the exporter then counts."""
    parts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Text by part name. A part that was not given is missing, an empty one is there."""
    verification: Verification | None = None
    trace_id: int = 0
    """128-bit id of the trace, 0 where the span has none."""


def read_record(span: ReadableSpan) -> Record | None:
    """The record of an action's span, None for any other span.

    A span is an action when it has an action type or a part; the root span of a task
    has neither. Values of unexpected types are written as text rather than refused.
    """
    given = span.attributes
    if not given:
        return None
    action_type = given.get(attributes.ACTION_TYPE)
    parts = {
        key[_PREFIX_LENGTH:]: _text(value)
        for key, value in given.items()
        if key.startswith(attributes.PART_PREFIX) and value is not None
    }
    if action_type is None and not parts:
        return None
    _add_exception(parts, span)
    context = span.context
    return Record(
        op_name=_name(given.get(attributes.OP_NAME)),
        task_id=_name(given.get(attributes.TASK_ID)),
        action_type=span.name if action_type is None else _text(action_type),
        step=_step(given.get(attributes.STEP)),
        parts=parts,
        verification=_verification(given),
        trace_id=context.trace_id if context else 0,
    )


def written_in(span: ReadableSpan) -> str | None:
    """Absolute path of the tree that already holds the span's record, if one does."""
    value = span.attributes.get(attributes.LOG_DIR) if span.attributes else None
    return value if isinstance(value, str) else None


def _verification(given: Mapping[str, AttributeValue]) -> Verification | None:
    reference = given.get(attributes.VERIFY_SOURCE_REFERENCE)
    implementation = given.get(attributes.VERIFY_SOURCE_IMPLEMENTATION)
    script = given.get(attributes.VERIFY_SOURCE_SCRIPT)
    if reference is None and implementation is None and script is None:
        return None
    return Verification(
        framework=_name(given.get(attributes.VERIFY_FRAMEWORK), "reference"),
        impl_type=_name(given.get(attributes.VERIFY_IMPL_TYPE), "implementation"),
        reference=None if reference is None else _text(reference),
        implementation=None if implementation is None else _text(implementation),
        script=None if script is None else _text(script),
    )


def _add_exception(parts: dict[str, str], span: ReadableSpan) -> None:
    """An action that raised and logged nothing has its traceback for an error log."""
    if span.events and not parts.get(attributes.ERROR_LOG):
        for event in span.events:
            stacktrace = event.attributes.get("exception.stacktrace") if event.attributes else None
            if stacktrace is not None and event.name == "exception":
                parts[attributes.ERROR_LOG] = _text(stacktrace)


def _step(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 11:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_STEP:
        return value
    return None


def _name(value: object, default: str = _UNKNOWN) -> str:
    return default if value is None else _text(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=_jsonable)
    return str(value)


def _jsonable(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else _text(value)
