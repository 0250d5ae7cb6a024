"""What the page is told: the reader's values as JSON has them. Pure functions.

Times are in milliseconds since 1970. What is not known is left out.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

from otel_kernel_trace.attributes import RESULT
from otel_kernel_trace.page.compiled import (
    MAX_CHARS,
    DiagnosticShown,
    KernelShown,
    MeasuredShown,
    StageShown,
    SuspicionShown,
    diagnostics_of,
    kernels_of,
    measured_of,
    ms,
    stages_of,
    suspicions_of,
)
from otel_kernel_trace.reader.attempts import Attempt, attempts_of
from otel_kernel_trace.reader.model import Action, ModelCall, Part, Summary, Task
from otel_kernel_trace.reader.recurrence import STALL, Recurrence, recurrences
from otel_kernel_trace.reader.stages import actions_around
from otel_kernel_trace.reader.timeline import spent, tokens_by_model

MAX_TEXT_BYTES = 4_000_000
"""Of a longer text the page has the beginning."""
MAX_CHARSS = 100


class RowShown(TypedDict, total=False):
    """A task in the overview."""

    op: str
    task: str
    outcome: str
    steps: int
    actions: int
    verified: int
    passed: int
    firstPass: int
    speedup: float
    tokensIn: int
    tokensOut: int
    wall: float
    start: float
    end: float
    pending: int
    last: str
    lastStep: int
    firstFailed: int
    error: str
    """What first went wrong."""
    stalled: int
    """How many of the last verifications in a row failed with the same error, where that is a stall."""
    ref: list[int]
    """In a report, where the rest of the task is."""


class PartShown(TypedDict, total=False):
    """A text."""

    name: str
    path: str
    size: int
    """Bytes of all of it."""
    ref: list[int] | str
    """Where the page gets it: in a report a block, an offset and a size; from a server, what to ask for."""
    cut: bool
    """Whether the page has only the beginning."""
    gone: str
    """Why the page has not got it."""


class CallShown(TypedDict, total=False):
    """A model call."""

    name: str
    model: str
    start: float
    end: float
    tokensIn: int
    tokensOut: int
    error: str


class AgainShown(TypedDict):
    """That an action failed as earlier steps did."""

    times: int
    steps: list[int]
    """The last few."""


class ActionShown(TypedDict, total=False):
    """What an agent did."""

    step: int
    type: str
    agent: str
    copy: int
    start: float
    end: float
    pending: bool
    passed: bool
    error: str
    speedup: float
    profile: list[list[str]]
    framework: str
    impl: str
    tokensIn: int
    tokensOut: int
    model: str
    incomplete: str
    parts: list[PartShown]
    calls: list[CallShown]
    diagnostics: list[DiagnosticShown]
    """The first error first."""
    again: AgainShown
    suspicions: list[SuspicionShown]
    measured: MeasuredShown
    kernels: list[KernelShown]


class AttemptShown(TypedDict, total=False):
    """An attempt: the actions are indexes in those of the task."""

    step: int
    action: int
    verification: int
    code: list[int | str]
    """Action and part that have its code."""
    passed: bool
    speedup: float


class TaskShown(TypedDict):
    """A task."""

    actions: list[ActionShown]
    calls: list[CallShown]
    """Model calls outside of any action."""
    attempts: list[AttemptShown]
    runs: list[list[float | None]]
    spent: dict[str, float]
    models: list[list[str | int]]
    stages: list[StageShown]


PlacePart = Callable[[Action, Part], PartShown]
"""Says where the page gets a text."""


def row_of(summary: Summary, error: str | None = None) -> RowShown:
    """A task in the overview."""
    row = RowShown(
        op=summary.op_name,
        task=summary.task_id,
        outcome=summary.outcome.value,
        steps=summary.steps,
        actions=summary.actions,
        verified=summary.verified,
        passed=summary.passed,
        pending=summary.pending,
        last=summary.last,
        lastStep=summary.last_step,
    )
    if summary.first_pass is not None:
        row["firstPass"] = summary.first_pass
    if summary.first_failed is not None:
        row["firstFailed"] = summary.first_failed
    if summary.best_speedup is not None:
        row["speedup"] = summary.best_speedup
    if summary.tokens:
        row["tokensIn"], row["tokensOut"] = summary.tokens.input, summary.tokens.output
    if summary.start is not None:
        row["start"] = ms(summary.start)
    if summary.end is not None:
        row["end"] = ms(summary.end)
    if summary.wall_time is not None:
        row["wall"] = ms(summary.wall_time)
    if error is not None:
        row["error"] = error
    if summary.stalled >= STALL and summary.first_pass is None:
        row["stalled"] = summary.stalled
    return row


def task_of(task: Task, place: PlacePart) -> TaskShown:
    """A task, with the places of its texts."""
    by_action, outside = _calls_by_action(task)
    index = {id(action): number for number, action in enumerate(task.actions)}
    where = spent(task)
    again = recurrences(task.actions)
    return TaskShown(
        actions=[
            _action_of(
                action,
                place,
                by_action.get(number, ()),
                again.get((action.step, action.action_type, action.copy)),
            )
            for number, action in enumerate(task.actions)
        ],
        calls=[_call_of(call) for call in outside],
        attempts=[_attempt_of(attempt, index) for attempt in attempts_of(task)],
        runs=[[ms(start), None if end is None else ms(end)] for start, end in task.runs],
        spent={
            "model": ms(where.model),
            "compile": ms(where.compile),
            "verify": ms(where.verify),
            "waiting": ms(where.waiting),
            "unaccounted": ms(where.unaccounted),
        },
        models=[[name, tokens.input, tokens.output] for name, tokens in tokens_by_model(task.actions)],
        stages=stages_of(task),
    )


def _action_of(
    action: Action, place: PlacePart, calls: Iterable[ModelCall], again: Recurrence | None
) -> ActionShown:
    shown = ActionShown(
        step=action.step,
        type=action.action_type,
        parts=[place(action, part) for part in action.parts.values()],
    )
    if action.agent is not None:
        shown["agent"] = action.agent.value
    if action.copy != 1:
        shown["copy"] = action.copy
    if action.start is not None:
        shown["start"] = ms(action.start)
    if action.end is not None:
        shown["end"] = ms(action.end)
    if action.is_pending:
        shown["pending"] = True
    if action.passed is not None:
        shown["passed"] = action.passed
    if action.error:
        shown["error"] = action.error[:MAX_CHARS]
    if action.speedup is not None:
        shown["speedup"] = action.speedup
    if action.profile:
        shown["profile"] = [
            [name, _measurement(value)] for name, value in list(action.profile.items())[:MAX_CHARSS]
        ]
    if action.framework:
        shown["framework"] = action.framework
    if action.impl_type:
        shown["impl"] = action.impl_type
    if action.tokens:
        shown["tokensIn"], shown["tokensOut"] = action.tokens.input, action.tokens.output
    if action.model:
        shown["model"] = action.model
    if action.incomplete:
        shown["incomplete"] = action.incomplete
    if called := [_call_of(call) for call in calls]:
        shown["calls"] = called
    if action.diagnostics:
        shown["diagnostics"] = diagnostics_of(action.diagnostics)
    if again is not None:
        shown["again"] = AgainShown(times=again.times, steps=list(again.steps))
    if action.assessment is not None and action.assessment.measurement:
        shown["measured"] = measured_of(action.assessment.measurement)
    if action.suspicions:
        shown["suspicions"] = suspicions_of(action.suspicions)
    if action.resources:
        shown["kernels"] = kernels_of(action.resources)
    return shown


def _call_of(call: ModelCall) -> CallShown:
    shown = CallShown(name=call.name)
    if call.model:
        shown["model"] = call.model
    if call.start is not None:
        shown["start"] = ms(call.start)
    if call.end is not None:
        shown["end"] = ms(call.end)
    if call.tokens:
        shown["tokensIn"], shown["tokensOut"] = call.tokens.input, call.tokens.output
    if call.error:
        shown["error"] = call.error[:MAX_CHARS]
    return shown


def _attempt_of(attempt: Attempt, index: dict[int, int]) -> AttemptShown:
    shown = AttemptShown(step=attempt.step, action=index[id(attempt.action)])
    verification = attempt.verification
    if RESULT in attempt.action.parts:
        shown["code"] = [shown["action"], RESULT]
    if verification is not None:
        shown["verification"] = index[id(verification)]
        if verification.passed is not None:
            shown["passed"] = verification.passed
        if verification.passed and verification.speedup is not None:
            shown["speedup"] = verification.speedup
        if "code" not in shown and "source.implementation" in verification.parts:
            shown["code"] = [shown["verification"], "source.implementation"]
    return shown


def _calls_by_action(task: Task) -> tuple[dict[int, list[ModelCall]], list[ModelCall]]:
    """Model calls, by the action that they are in: the one that is their parent, or that was at work."""
    numbers = {id(action): number for number, action in enumerate(task.actions)}
    spans = {key: numbers[id(action)] for key, action in actions_around(task).items()}
    timed = sorted(
        (action.start, number)
        for number, action in enumerate(task.actions)
        if action.start is not None and action.end is not None
    )
    starts = [start for start, _ in timed]
    found: dict[int, list[ModelCall]] = {}
    outside = []
    for call in task.model_calls:
        number = spans.get((call.trace_id, call.parent_id))
        if number is None:
            number = _at_work(call, task.actions, timed, starts)
        if number is None:
            outside.append(call)
        else:
            found.setdefault(number, []).append(call)
    return found, outside


def _at_work(
    call: ModelCall, actions: Sequence[Action], timed: Sequence[tuple[int, int]], starts: Sequence[int]
) -> int | None:
    """The action that began last of those around a call."""
    if call.start is None or call.end is None:
        return None
    last = bisect_right(starts, call.start)
    for _, number in reversed(timed[max(0, last - 16) : last]):
        action = actions[number]
        if action.trace_id == call.trace_id and (action.end or 0) >= call.end:
            return number
    return None


def _measurement(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:MAX_CHARS]
