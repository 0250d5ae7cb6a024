"""A task as documents: one for each action, model call, stage, diagnostic and line of a builder."""

from __future__ import annotations

import dataclasses
import hashlib
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Final

from otel_kernel_trace.diagnostics.model import Diagnostic
from otel_kernel_trace.ecs.fields import ECS_VERSION
from otel_kernel_trace.measurements import measurement_of
from otel_kernel_trace.reader import Action, ModelCall, Part, Task
from otel_kernel_trace.reader.model import Stage
from otel_kernel_trace.reader.stages import told_by_actions
from otel_kernel_trace.resources import KernelResources

Document = dict[str, object]
"""By names with dots, as in :data:`~otel_kernel_trace.ecs.fields.FIELDS`. What is not known is None."""

_SERVICE: Final = "otel-kernel-trace"
_MAX_OF_AN_ACTION: Final = 10_000
"""Diagnostics, or lines of a builder."""

_LEVELS: Final = {
    "error": "error",
    "warning": "warn",
    "note": "info",
    "INTERNAL_ERROR": "error",
    "ERROR": "error",
    "WARNING": "warn",
    "INFO": "info",
    "VERBOSE": "debug",
}

Excerpt = Callable[[Part], str]
"""The beginning of a part's text; empty where it can't be read."""
FileTime = Callable[[str], int | None]
"""When a file below the tree's root was last changed, in nanoseconds since 1970."""


def documents_of(task: Task, excerpt: Excerpt, file_time: FileTime) -> Iterator[Document]:
    """A task's documents: actions by step, then model calls and stages by start; each before what it told.

    Args:
        task: of a tree.
        excerpt: asked for every part of every action.
        file_time: asked for actions that have no time.
    """
    summary = task.summary
    about: Document = {
        "ecs.version": ECS_VERSION,
        "event.kind": "event",
        "event.module": "kernel_trace",
        "service.name": _SERVICE,
        "labels.op_name": summary.op_name,
        "labels.task_id": summary.task_id,
        "kernel_trace.op_name": summary.op_name,
        "kernel_trace.task_id": summary.task_id,
    }
    for action in task.actions:
        yield from _of_action(action, about, excerpt, file_time)
    for call in task.model_calls:
        yield _of_call(call, about)
    told = told_by_actions(task)
    for stage in task.stages:
        yield from _of_stage(stage, about, told.get((stage.trace_id, stage.span_id), frozenset()))


def _of_action(action: Action, about: Document, excerpt: Excerpt, file_time: FileTime) -> Iterator[Document]:
    identity = (
        action.trace_id,
        action.span_id,
        action.step,
        action.action_type,
        action.copy,
        action.is_pending,
    )
    parts = [_part(part, excerpt(part)) for part in action.parts.values()]
    log = next((part["excerpt"] for part in parts if part["name"] == "error_log"), "")
    measured = measurement_of(action.profile) if action.profile else None
    start, end = action.start, action.end
    is_of_file = start is None and end is None
    if is_of_file:
        times = [time for part in action.parts.values() if part.path and (time := file_time(part.path))]
        end = max(times, default=None)
    has_failed = bool(action.error) or action.passed is False
    document: Document = {
        **about,
        **_spent(start, end),
        **_of_span(action),
        **_event("action", about, identity, action.action_type),
        "event.type": ["start"] if action.is_pending else ["error"] if has_failed else ["end"],
        "event.outcome": "unknown" if action.is_pending else "failure" if has_failed else "success",
        "log.level": "error" if has_failed else "info",
        "message": _told(action),
        "error.message": action.error or None,
        "error.type": _error_type(action) if has_failed else None,
        "error.stack_trace": (log or None) if has_failed else None,
        "gen_ai.agent.name": action.action_type if action.agent is None else action.agent.value,
        "gen_ai.response.model": action.model or None,
        "gen_ai.usage.input_tokens": action.tokens.input if action.tokens else None,
        "gen_ai.usage.output_tokens": action.tokens.output if action.tokens else None,
        "kernel_trace.step": action.step,
        "kernel_trace.action_type": action.action_type,
        "kernel_trace.agent": None if action.agent is None else action.agent.value,
        "kernel_trace.copy": action.copy,
        "kernel_trace.pending": action.is_pending,
        "kernel_trace.passed": action.passed,
        "kernel_trace.framework": action.framework or None,
        "kernel_trace.impl_type": action.impl_type or None,
        "kernel_trace.judges": action.judges or None,
        "kernel_trace.incomplete": action.incomplete or None,
        "kernel_trace.time_is_of_file": is_of_file or None,
        "kernel_trace.speedup": action.speedup,
        "kernel_trace.part": parts,
        "kernel_trace.resources": [_resources(one) for one in action.resources],
        "kernel_trace.suspicion": [dataclasses.asdict(one) for one in action.suspicions],
    }
    if measured:
        document |= {
            "kernel_trace.measurement.base_time": measured.base_time,
            "kernel_trace.measurement.generated_time": measured.generated_time,
            "kernel_trace.measurement.unit_is_assumed": measured.unit_is_assumed,
            "kernel_trace.measurement.method": measured.how,
            "kernel_trace.measurement.contradiction": measured.contradiction or None,
        }
    yield document
    yield from _of_diagnostics(action.diagnostics, document, identity)


def _of_call(call: ModelCall, about: Document) -> Document:
    identity = (call.trace_id, call.span_id, call.start, call.end, call.name)
    return {
        **about,
        **_spent(call.start, call.end),
        **_of_span(call),
        **_event("model_call", about, identity, "model_call"),
        "event.type": ["error"] if call.error else ["end"],
        "event.outcome": "failure" if call.error else "success",
        "log.level": "error" if call.error else "info",
        "message": call.name or call.model,
        "error.message": call.error or None,
        "gen_ai.response.model": call.model or None,
        "gen_ai.usage.input_tokens": call.tokens.input if call.tokens else None,
        "gen_ai.usage.output_tokens": call.tokens.output if call.tokens else None,
    }


def _of_stage(stage: Stage, about: Document, told: Collection[str]) -> Iterator[Document]:
    """A stage; of its diagnostics those that the action around it does not tell (signatures)."""
    identity = (stage.trace_id, stage.span_id, stage.start, stage.end, stage.name)
    has_failed = bool(stage.error or stage.exit_code or stage.signal)
    document: Document = {
        **about,
        **_spent(stage.start, stage.end),
        **_of_span(stage),
        **_event("stage", about, identity, "stage"),
        "event.category": ["process"] if stage.command else None,
        "event.type": ["end"],
        "event.outcome": "failure" if has_failed else "success",
        "log.level": "error" if has_failed else "info",
        "message": stage.name,
        "error.message": stage.error or None,
        "process.args": list(stage.command) or None,
        "process.args_count": len(stage.command) or None,
        "process.command_line": shlex.join(stage.command) or None,
        "process.exit_code": stage.exit_code,
        "kernel_trace.stage.name": stage.name,
        "kernel_trace.stage.cpu_time": stage.cpu_time,
        "kernel_trace.stage.children_cpu_time": stage.children_cpu_time,
        "kernel_trace.stage.peak_memory": stage.peak_memory,
        "kernel_trace.stage.input_size": stage.input_size,
        "kernel_trace.stage.output_size": stage.output_size,
        "kernel_trace.stage.signal": stage.signal or None,
        "kernel_trace.stage.macros": list(stage.macros) or None,
        "kernel_trace.part": [_part(part, part.inline or "") for part in stage.outputs.values()],
        "kernel_trace.resources": [_resources(one) for one in stage.resources],
        "kernel_trace.builder.totals": _texts(stage.builder),
    }
    yield document
    own = [one for one in stage.diagnostics if one.signature not in told]
    yield from _of_diagnostics(own, document, identity)
    for number, line in enumerate(stage.builder_lines[:_MAX_OF_AN_ACTION]):
        severity = str(line.get("severity", ""))
        level = _LEVELS.get(severity, "info")
        facts = {name: fact for name, fact in line.items() if name not in ("severity", "message", "kind")}
        yield {
            **_inside(document),
            **_event("builder", about, (*identity, number), "builder_line"),
            "event.type": ["error"] if level == "error" else ["info"],
            "log.level": level,
            "message": str(line.get("message", "")),
            "kernel_trace.stage.name": stage.name,
            "kernel_trace.builder.severity": severity or None,
            "kernel_trace.builder.kind": str(line.get("kind", "")) or None,
            "kernel_trace.builder.facts": _texts(facts),
        }


def _of_diagnostics(
    diagnostics: Sequence[Diagnostic], document: Document, identity: tuple[object, ...]
) -> Iterator[Document]:
    for number, one in enumerate(diagnostics[:_MAX_OF_AN_ACTION]):
        yield {
            **_inside(document),
            **_event("diagnostic", document, (*identity, number), "diagnostic"),
            "event.type": ["error"] if one.severity == "error" else ["info"],
            "log.level": _LEVELS[one.severity],
            "log.origin.file.name": one.file,
            "log.origin.file.line": one.line,
            "log.origin.function": one.function,
            "message": one.message,
            "error.message": one.message if one.severity == "error" else None,
            "error.type": (one.code or one.category) if one.severity == "error" else None,
            "kernel_trace.diagnostic.tool": one.tool,
            "kernel_trace.diagnostic.severity": one.severity,
            "kernel_trace.diagnostic.category": one.category,
            "kernel_trace.diagnostic.identifier": one.identifier,
            "kernel_trace.diagnostic.signature": one.signature or None,
            "kernel_trace.diagnostic.code": one.code,
            "kernel_trace.diagnostic.column": one.column,
            "kernel_trace.diagnostic.log_line": one.log_line or None,
            "kernel_trace.diagnostic.notes": list(one.notes) or None,
            "kernel_trace.diagnostic.figures": _texts(one.figures),
        }


_OF_ALL_INSIDE: Final = (
    "@timestamp",
    "ecs.version",
    "event.kind",
    "event.module",
    "service.name",
    "labels.op_name",
    "labels.task_id",
    "trace.id",
    "span.id",
    "parent.id",
    "kernel_trace.op_name",
    "kernel_trace.task_id",
    "kernel_trace.step",
    "kernel_trace.action_type",
    "kernel_trace.stage.name",
)


def _inside(document: Document) -> Document:
    """What a document shares with those of the things that its log told."""
    return {name: document[name] for name in _OF_ALL_INSIDE if name in document}


def _event(dataset: str, about: Document, identity: tuple[object, ...], action: str) -> Document:
    """What kind of event it is, with an id that it has in every export of the same tree."""
    names = (dataset, about["kernel_trace.op_name"], about["kernel_trace.task_id"], *identity)
    digest = hashlib.sha256("\0".join(map(repr, names)).encode("utf-8", "surrogatepass"))
    return {
        "event.id": digest.hexdigest()[:40],
        "event.dataset": f"kernel_trace.{dataset}",
        "event.action": action,
    }


def _of_span(one: Action | ModelCall | Stage) -> Document:
    return {
        "trace.id": one.trace_id or None,
        "span.id": one.span_id or None,
        "parent.id": one.parent_id or None,
    }


def _spent(start: int | None, end: int | None) -> Document:
    is_whole = start is not None and end is not None and end >= start
    return {
        "@timestamp": _moment(start if end is None else end),
        "event.start": _moment(start),
        "event.end": _moment(end),
        "event.duration": end - start if is_whole and start is not None and end is not None else None,
    }


def _moment(nanoseconds: int | None) -> str | None:
    """A time as ``strict_date_optional_time_nanos`` takes it."""
    if nanoseconds is None or not 0 <= nanoseconds < 2**63:
        return None
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def _told(action: Action) -> str:
    verdict = {None: "", True: ": passed", False: ": failed"}[action.passed]
    speedup = f", {action.speedup:.4g}x" if action.passed and action.speedup is not None else ""
    return f"{action.action_type} at step {action.step}{verdict}{speedup}"


def _error_type(action: Action) -> str | None:
    first = next((one for one in action.diagnostics if one.severity == "error"), None)
    return None if first is None else first.code or first.category


def _part(part: Part, excerpt: str) -> dict[str, object]:
    return {
        "name": part.name,
        "path": part.path or None,
        "sha256": part.sha256 or None,
        "size": part.size,
        "excerpt": excerpt or None,
    }


def _resources(one: KernelResources) -> dict[str, object]:
    return {name: value for name, value in dataclasses.asdict(one).items() if value not in (None, "")}


def _texts(given: Mapping[str, object]) -> dict[str, object] | None:
    """Values of an open set of names, as ``flattened`` has them: texts."""
    return {name: str(value) for name, value in given.items()} or None
