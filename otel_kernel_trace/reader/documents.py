"""What the readers find as JSON; docs/json.md describes every field.

Times are nanoseconds since 1970 as integers, with OTLP's names for them; what is not known
is null. Fields may be added; none is renamed or removed within a schema's version.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping

from otel_kernel_trace.assessment import Assessment
from otel_kernel_trace.diagnostics import Diagnostic
from otel_kernel_trace.reader.attempts import Attempt, BlamedLine
from otel_kernel_trace.reader.comparison import Comparison, Stats
from otel_kernel_trace.reader.model import Action, ModelCall, Summary, Task, Tokens
from otel_kernel_trace.reader.stages import (
    FIGURES,
    PlacedStage,
    StageChange,
    StageTotals,
    difference_of,
    placed_stages,
    share_of,
)
from otel_kernel_trace.reader.timeline import Spent
from otel_kernel_trace.resources import KernelResources

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


def of_document(kind: str, log_dir: str, **fields: Json) -> dict[str, Json]:
    """A whole answer: which schema it has, of which tree it is, and its fields."""
    return {"schema": f"otel-kernel-trace.{kind}.v1", "log_dir": log_dir, **fields}


def text_of(document: Json) -> str:
    """A document as every reader of JSON takes it: what UTF-8 can't hold is U+FFFD."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole if whole.isascii() else json.dumps(json.loads(whole), indent=1)


def of_summary(summary: Summary, first_error: str | None = None) -> dict[str, Json]:
    """A task in a line."""
    return {
        "op_name": summary.op_name,
        "task_id": summary.task_id,
        "outcome": summary.outcome.value,
        "steps": summary.steps,
        "action_count": summary.actions,
        "verified": summary.verified,
        "passed": summary.passed,
        "first_pass_step": summary.first_pass,
        "best_speedup": summary.best_speedup,
        "tokens": of_tokens(summary.tokens),
        "start_time_unix_nano": summary.start,
        "end_time_unix_nano": summary.end,
        "wall_time_nano": summary.wall_time,
        "pending": summary.pending,
        "last_action_type": summary.last,
        "last_step": summary.last_step,
        "first_failed_step": summary.first_failed,
        "errors": [{"signature": signature, "count": number} for signature, number in summary.errors],
        "stalled": summary.stalled,
        **({} if first_error is None else {"first_error": first_error}),
    }


def of_tokens(tokens: Tokens | None) -> Json:
    """What a model was paid for."""
    return None if tokens is None else {"input": tokens.input, "output": tokens.output}


def of_action(action: Action, texts: Mapping[str, str | None] | None = None) -> dict[str, Json]:
    """One thing that an agent did; ``texts`` are those of its parts that are wanted."""
    parts: dict[str, Json] = {}
    for name, part in action.parts.items():
        told: dict[str, Json] = {"path": part.path or None, "size": part.size, "sha256": part.sha256 or None}
        if texts is not None and name in texts:
            told["text"] = texts[name]
        parts[name] = told
    return {
        "op_name": action.op_name,
        "task_id": action.task_id,
        "step": action.step,
        "action_type": action.action_type,
        "agent": action.agent.value if action.agent else None,
        "copy": action.copy,
        "start_time_unix_nano": action.start,
        "end_time_unix_nano": action.end,
        "pending": action.is_pending,
        "passed": action.passed,
        "error": action.error,
        "speedup": action.speedup,
        "profile": _json_of(action.profile),
        "framework": action.framework,
        "impl_type": action.impl_type,
        "tokens": of_tokens(action.tokens),
        "model": action.model,
        "trace_id": action.trace_id,
        "span_id": action.span_id,
        "parent_span_id": action.parent_id,
        "judges_span_id": action.judges,
        "incomplete": action.incomplete,
        "diagnostics": [of_diagnostic(one) for one in action.diagnostics],
        "resources": [of_resources(one) for one in action.resources],
        "suspicions": [_json_of(dataclasses.asdict(one)) for one in action.suspicions],
        "assessment": None if action.assessment is None else _of_assessment(action.assessment),
        "parts": parts,
    }


def of_diagnostic(one: Diagnostic) -> dict[str, Json]:
    """One thing that a log says is wrong."""
    return {
        **{name: _json_of(getattr(one, name)) for name in Diagnostic.__dataclass_fields__},
        "headline": one.headline,
    }


def _of_assessment(one: Assessment) -> Json:
    measurement = one.measurement
    return {
        "correctness": _json_of(dataclasses.asdict(one.correctness)),
        "measurement": {
            "base_time": _json_of(measurement.base_time),
            "generated_time": _json_of(measurement.generated_time),
            "speedup": _json_of(measurement.speedup),
            "contradiction": measurement.contradiction,
            "method": None if measurement.method is None else str(measurement.method),
        },
    }


def of_resources(one: KernelResources) -> dict[str, Json]:
    """What a kernel needs."""
    return {name: _json_of(value) for name, value in dataclasses.asdict(one).items()}


def of_call(call: ModelCall) -> dict[str, Json]:
    """A request to a model."""
    return {
        "name": call.name,
        "model": call.model,
        "start_time_unix_nano": call.start,
        "end_time_unix_nano": call.end,
        "tokens": of_tokens(call.tokens),
        "error": call.error,
        "trace_id": call.trace_id,
        "span_id": call.span_id,
        "parent_span_id": call.parent_id,
    }


def of_stage(placed: PlacedStage) -> dict[str, Json]:
    """A stage of compiling, running or measuring, and where it is."""
    stage, action = placed.stage, placed.action
    return {
        "name": stage.name,
        "path": list(placed.path),
        "step": action.step if action else None,
        "action_type": action.action_type if action else None,
        "start_time_unix_nano": stage.start,
        "end_time_unix_nano": stage.end,
        "wall_time_nano": stage.duration,
        "share": placed.share,
        "cpu_time_seconds": stage.cpu_time,
        "children_cpu_time_seconds": stage.children_cpu_time,
        "peak_memory_bytes": stage.peak_memory,
        "input_bytes": stage.input_size,
        "output_bytes": stage.output_size,
        "command": list(stage.command),
        "exit_code": stage.exit_code,
        "signal": stage.signal,
        "macros": list(stage.macros),
        "error": stage.error,
        "incomplete": stage.incomplete,
        "outputs": {
            name: {"path": part.path or None, "size": part.size, "sha256": part.sha256 or None}
            for name, part in stage.outputs.items()
        },
        "diagnostics": [of_diagnostic(one) for one in stage.diagnostics],
        "resources": [of_resources(one) for one in stage.resources],
        "builder": _json_of(stage.builder),
        "builder_lines": _json_of(stage.builder_lines),
        "trace_id": stage.trace_id,
        "span_id": stage.span_id,
        "parent_span_id": stage.parent_id,
    }


def of_change(change: StageChange) -> dict[str, Json]:
    """What became of the stages of a path."""
    differences: dict[str, Json] = {}
    changes: dict[str, Json] = {}
    for figure in FIGURES:
        before, after = figure.of(change.before), figure.of(change.after)
        difference = difference_of(before, after)
        differences[figure.name] = difference
        changes[figure.name] = share_of(difference, before)
    return {
        "path": list(change.path),
        "before": _of_totals(change.before),
        "after": _of_totals(change.after),
        "difference": differences,
        "change": changes,
    }


def _of_totals(totals: StageTotals | None) -> Json:
    return None if totals is None else {figure.name: figure.of(totals) for figure in FIGURES}


def of_spent(spent: Spent) -> dict[str, Json]:
    """Where time went, in nanoseconds."""
    return {f"{name}_nano": value for name, value in dataclasses.asdict(spent).items()}


def of_task(
    task: Task, actions: Iterable[dict[str, Json]], spent: Spent, cost: float | None
) -> dict[str, Json]:
    """All of a task."""
    return {
        **of_summary(task.summary),
        "actions": list(actions),
        "model_calls": [of_call(call) for call in task.model_calls],
        "stages": [of_stage(placed) for placed in placed_stages(task)],
        "time": of_spent(spent),
        "cost": cost,
    }


def of_attempt(attempt: Attempt) -> dict[str, Json]:
    """Which attempt."""
    return {
        "task_id": attempt.action.task_id,
        "step": attempt.step,
        "action_type": attempt.action.action_type,
        "passed": attempt.passed,
        "speedup": attempt.verification.speedup if attempt.verification else None,
        "verified_step": attempt.verification.step if attempt.verification else None,
    }


def of_blame(lines: Iterable[BlamedLine]) -> list[Json]:
    """Lines of a kernel, each with the attempt that brought it."""
    return [
        {"line": number, "text": line.text, **of_attempt(line.attempt)}
        for number, line in enumerate(lines, 1)
    ]


def of_comparison(comparison: Comparison) -> dict[str, Json]:
    """An op in two trees."""
    return {
        "op_name": comparison.op_name,
        "before": _of_stats(comparison.before),
        "after": _of_stats(comparison.after),
        "p_value": comparison.p_value,
        "regressed": list(comparison.regressed),
        "improved": list(comparison.improved),
        "basis": comparison.basis,
        "errors": [
            {"signature": signature, "before": before, "after": after}
            for signature, before, after in comparison.errors
        ],
    }


def _of_stats(stats: Stats) -> dict[str, Json]:
    return {
        "tasks": stats.tasks,
        "judged": stats.judged,
        "passed": stats.passed,
        "pass_rate": stats.pass_rate,
        "median_best_speedup": stats.best_speedup,
        "measured": stats.measured,
        "median_steps_to_pass": stats.steps,
        "median_tokens_to_pass": stats.tokens,
    }


def _json_of(value: object) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has none
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _json_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_of(item) for item in value]
    return str(value)
