"""Spans of an index as values of the reader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.actions import agent_of
from otel_kernel_trace.assessment import assess
from otel_kernel_trace.diagnostics.telling import diagnostics_in, resources_in
from otel_kernel_trace.index import GIVEN
from otel_kernel_trace.measurements import profile_in, speedup_in
from otel_kernel_trace.modelcalls import read_model_call
from otel_kernel_trace.reader.lines import tokens_in
from otel_kernel_trace.reader.model import Action, ModelCall, Part, Stage, Tokens
from otel_kernel_trace.record import Record, attributes_of
from otel_kernel_trace.reference import Reference, references_in, without_references
from otel_kernel_trace.suspicion import decode

_SOURCES = "kernel_trace.verify."
_OUTPUTS = {
    "stdout": attributes.STAGE_STDOUT,
    "stderr": attributes.STAGE_STDERR,
    "log": attributes.BUILDER_LOG,
    "layers": attributes.LAYER_TIMES,
}

FACTS = (attributes.RESOURCES, attributes.SUSPICIONS)
"""Attributes that may be long and are read as values, not shown as texts."""


def action_of(span: ReadableSpan, record: Record, given: Mapping[str, AttributeValue]) -> Action:
    """An action by its line; ``record`` is the span's, ``given`` its attributes, :data:`FACTS` put back."""
    profile = given.get(attributes.VERIFY_PROFILE)
    verdict = given.get(attributes.VERIFY_RESULT)
    context, parent = span.context, span.parent
    has_failed = span.status.status_code is StatusCode.ERROR
    passed = None if verdict is None else attributes.has_passed(verdict)
    told = profile if isinstance(profile, str) else ""
    diagnostics, suspicions = diagnostics_in(span.events), decode(given.get(attributes.SUSPICIONS))
    return Action(
        op_name=record.op_name,
        task_id=record.task_id,
        step=record.step or 0,
        action_type=record.action_type,
        agent=agent_of(record.action_type),
        copy=record.copy,
        start=span.start_time or None,
        end=None if record.is_pending else span.end_time or None,
        is_pending=record.is_pending,
        passed=passed,
        error=(span.status.description or "error") if has_failed else "",
        speedup=speedup_in(told),
        profile=profile_in(told),
        framework=attributes.text(given.get(attributes.VERIFY_FRAMEWORK, "")),
        impl_type=attributes.text(given.get(attributes.VERIFY_IMPL_TYPE, "")),
        tokens=tokens_in(given),
        model=attributes.text(given.get(attributes.GEN_AI_RESPONSE_MODEL, "")),
        trace_id=f"{context.trace_id:032x}" if context else "",
        span_id=f"{context.span_id:016x}" if context else "",
        parent_id=f"{parent.span_id:016x}" if parent else "",
        judges=f"{record.judges:016x}" if record.judges else "",
        incomplete=record.incomplete,
        parts=MappingProxyType(_parts_of(given)),
        diagnostics=diagnostics,
        resources=resources_in(given),
        suspicions=suspicions,
        assessment=None if passed is None else assess(passed, told, diagnostics, suspicions),
        builder=_of_builder(without_references(given, references_in(given))),
        builder_lines=_builder_lines(span),
        description=description_of(span),
    )


def description_of(span: ReadableSpan) -> Mapping[str, str | int]:
    """What a span, or else its resource, says that its task is made with."""
    return MappingProxyType(attributes.description_in({**span.resource.attributes, **attributes_of(span)}))


def _parts_of(given: Mapping[str, AttributeValue]) -> dict[str, Part]:
    references = references_in(given)
    parts: dict[str, Part] = {}
    names = [*given, *references]
    for attribute in names:
        name = part_name(attribute)
        if name is None or name in parts:
            continue
        reference = references.get(attribute)
        if reference is not None:
            parts[name] = _part(name, reference)
        elif attribute in given and not _is_mark(attribute, references):
            parts[name] = Part(name, inline=attributes.text(given[attribute]))
    # Where the file has what was parsed out of a reply, the reply itself.
    result = attributes.PART_PREFIX + attributes.RESULT
    if result in references:
        if GIVEN + result in references:
            parts["reply"] = _part("reply", references[GIVEN + result])
        elif result in given:
            parts["reply"] = Part("reply", inline=attributes.text(given[result]))
    return parts


def _part(name: str, reference: Reference) -> Part:
    return Part(name, reference.path, reference.size, reference.sha256, reference.offset)


def part_name(attribute: str) -> str | None:
    """What a part is called whose text an attribute holds; None for another attribute."""
    if attribute.startswith(attributes.PART_PREFIX):
        return attribute[len(attributes.PART_PREFIX) :]
    if attribute.startswith(f"{_SOURCES}source."):
        return attribute[len(_SOURCES) :]
    return None


def _is_mark(attribute: str, references: Mapping[str, Reference]) -> bool:
    """Whether an attribute says where another's text is."""
    name, _, mark = attribute.rpartition(".")
    return name in references and mark in ("path", "sha256", "size", "offset")


def stage_of(span: ReadableSpan, given: Mapping[str, AttributeValue]) -> Stage:
    """A stage by its line.

    Args:
        span: the line's.
        given: its attributes, with the texts of :data:`FACTS` put back.
    """
    context, parent = span.context, span.parent
    references = references_in(given)
    told = without_references(given, references)
    outputs = {
        name: _part(name, references[attribute])
        if attribute in references
        else Part(name, inline=attributes.text(given[attribute]))
        for name, attribute in _OUTPUTS.items()
        if attribute in references or attribute in given
    }
    return Stage(
        name=attributes.text(given.get(attributes.STAGE, span.name)),
        start=span.start_time or None,
        end=span.end_time or None,
        trace_id=f"{context.trace_id:032x}" if context else "",
        span_id=f"{context.span_id:016x}" if context else "",
        parent_id=f"{parent.span_id:016x}" if parent else "",
        error=(span.status.description or "error") if span.status.status_code is StatusCode.ERROR else "",
        cpu_time=_number(given.get(attributes.STAGE_CPU_TIME)),
        children_cpu_time=_number(given.get(attributes.STAGE_CHILDREN_CPU_TIME)),
        peak_memory=_whole_number(given.get(attributes.STAGE_PEAK_MEMORY)),
        input_size=_whole_number(given.get(attributes.STAGE_INPUT_SIZE)),
        output_size=_whole_number(given.get(attributes.STAGE_OUTPUT_SIZE)),
        command=_words(given.get(attributes.PROCESS_COMMAND_ARGS)),
        exit_code=code if type(code := given.get(attributes.PROCESS_EXIT_CODE)) is int else None,
        signal=attributes.text(given.get(attributes.STAGE_SIGNAL, "")),
        macros=_words(given.get(attributes.STAGE_MACROS)),
        outputs=MappingProxyType(outputs),
        diagnostics=diagnostics_in(span.events),
        resources=resources_in(given),
        builder=_of_builder(told),
        builder_lines=_builder_lines(span),
        incomplete=attributes.text(given.get(attributes.INCOMPLETE, "")),
    )


def _builder_lines(span: ReadableSpan) -> tuple[Mapping[str, str | int | float | bool], ...]:
    told = [event.attributes or {} for event in span.events if event.name == attributes.BUILDER]
    return tuple(map(_of_builder, told))


def _of_builder(given: Mapping[str, AttributeValue]) -> Mapping[str, str | int | float | bool]:
    start = len(attributes.BUILDER_PREFIX)
    return MappingProxyType(
        {
            name[start:]: value
            for name, value in given.items()
            if name.startswith(attributes.BUILDER_PREFIX)
            and isinstance(value, (str, int, float))
            and name not in _OUTPUTS.values()
        }
    )


def _number(value: AttributeValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def _whole_number(value: AttributeValue) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _words(value: AttributeValue) -> tuple[str, ...]:
    return tuple(map(attributes.text, value)) if isinstance(value, (list, tuple)) else ()


def call_of(span: ReadableSpan) -> ModelCall:
    """A model call by its line."""
    call = read_model_call(attributes_of(span))
    context, parent = span.context, span.parent
    has_failed = span.status.status_code is StatusCode.ERROR
    return ModelCall(
        name=span.name,
        start=span.start_time or None,
        end=span.end_time or None,
        model=(call.model or "") if call else "",
        tokens=Tokens(call.input_tokens or 0, call.output_tokens or 0) if call else None,
        error=(span.status.description or "error") if has_failed else "",
        trace_id=f"{context.trace_id:032x}" if context else "",
        span_id=f"{context.span_id:016x}" if context else "",
        parent_id=f"{parent.span_id:016x}" if parent else "",
    )
