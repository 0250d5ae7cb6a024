"""What is written of a finished span at its level.

Here is the one place where that is decided for a tree, whoever made the span.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.derivation import action_around
from otel_kernel_trace.levels import (
    FOR_TASKS,
    STAGE,
    Level,
    Levels,
    component_of,
    for_attribute,
    has_failed,
    kept,
    level_in,
    marked,
    names_of,
    when_done,
)
from otel_kernel_trace.live import known
from otel_kernel_trace.modelcalls import is_model_call
from otel_kernel_trace.record import Record, attributes_of, with_attributes

_MODEL = ""
"""Stands for the component of a model call, which is no agent's name."""


def action_at_level(record: Record, at: Levels) -> Record | None:
    """What is written of an action, None where that is nothing.

    Args:
        record: of an action that has ended, as far as it can have failed.
        at: the levels of the tree; a span that was made at a lower one says so itself.
    """
    level = min(at.of_action(record.action_type), level_in(record.attributes))
    if level >= Level.INFO:
        return record
    component = component_of(record.action_type)
    failed = has_failed(
        component, {**record.attributes, **attributes.of_parts(record.parts)}, is_error=record.is_error
    )
    if level < when_done(component, failed=failed):
        return None
    given = kept(component, level, record.attributes, failed=failed)
    has_sources = level >= for_attribute(component, attributes.VERIFY_SOURCE_SCRIPT, failed=failed)
    return record._replace(
        parts={
            part: text
            for part, text in record.parts.items()
            if level >= for_attribute(component, attributes.PART_PREFIX + part, failed=failed)
        },
        verification=record.verification if has_sources else None,
        incomplete="\n".join(
            line
            for line in record.incomplete.splitlines()
            if line.partition(":")[0] not in record.attributes or line.partition(":")[0] in given
        ),
        is_partial=True,
        attributes={**given, **marked(level)},
    )


def note_at_level(
    span: ReadableSpan, given: Mapping[str, AttributeValue], at: Levels
) -> Mapping[str, AttributeValue] | None:
    """The attributes that are written of a task, a stage or a model call; None where it is not written.

    Args:
        span: finished.
        given: its attributes.
        at: as of :func:`action_at_level`.
    """
    is_stage = attributes.STAGE in given
    if not is_stage and not is_model_call(given):
        return given if at.highest >= FOR_TASKS else None
    component = STAGE if is_stage else _MODEL
    names, level = _around(span)
    level = min(level, at.of(STAGE, *names) if is_stage else at.of(*names), level_in(given))
    failed = span.status.status_code is StatusCode.ERROR
    # What a builder said has a level of its own, and its lines here are those that this keeps.
    has_lines = level > Level.OFF and any(event.name == attributes.BUILDER for event in span.events)
    if level < when_done(component, failed=failed) and not has_lines:
        return None
    return {**kept(component, level, given, failed=failed), **marked(level)}


def _around(span: ReadableSpan) -> tuple[tuple[str, ...], Level]:
    """What directives may call the action that a span is in, and its level; none and all where not known."""
    live = known(span.context.trace_id, span.context.span_id) if span.context else None
    action = None if live is None else action_around(live)
    if action is not None:
        given = attributes_of(action[1])
        return names_of(attributes.text(given.get(attributes.ACTION_TYPE, ""))), level_in(given)
    if live is not None and live.within is not None:
        return live.within.names, live.within.level
    return (), Level.DEBUG


def without_messages(span: ReadableSpan, given: Mapping[str, AttributeValue]) -> ReadableSpan:
    """A span without the events that hold what a model was asked and said, if it is at such a level.

    https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/
    """
    if attributes.LEVEL not in given:
        return span
    events = [event for event in span.events if not event.name.startswith("gen_ai.")]
    return span if len(events) == len(span.events) else with_attributes(span, given, events)
