"""The stages of a task: which is inside which, their shares, how two tasks differ. Pure functions."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from otel_kernel_trace.reader.model import Action, Stage, Task

SpanId = tuple[str, str]
"""Trace id and span id."""

_Number = TypeVar("_Number", int, float)

_MAX_DEPTH: Final = 64
"""Deeper stages are taken for ones at that depth: paths would grow with the square of it."""
_MAX_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class PlacedStage:
    """A stage, and where it is."""

    stage: Stage
    action: Action | None
    """That it is in; None for one that the task itself has."""
    path: tuple[str, ...]
    """Names of the stages around it, the outermost first, and its own."""
    share: float | None
    """Of the time of the stage around it, else of the action, from 0; None where that is not known."""

    @property
    def depth(self) -> int:
        """How many stages are around it."""
        return len(self.path) - 1


@dataclass(frozen=True, slots=True)
class StageTotals:
    """What all stages of a path took together. What is not known of one of them is None."""

    count: int
    failed: int
    """How many ended with an error."""
    wall_time: int | None
    """Nanoseconds."""
    cpu_time: float | None
    children_cpu_time: float | None
    """Seconds."""
    peak_memory: int | None
    """Bytes: of the largest that is known."""
    input_size: int | None
    output_size: int | None
    """Bytes."""


class Figure(NamedTuple):
    """A figure that is compared."""

    name: str
    """With its unit."""
    field: str
    """Of :class:`StageTotals`."""

    def of(self, totals: StageTotals | None) -> int | float | None:
        """The figure; None where it is not known."""
        value: int | float | None = None if totals is None else getattr(totals, self.field)
        return value


FIGURES: Final = (
    Figure("count", "count"),
    Figure("failed", "failed"),
    Figure("wall_time_nano", "wall_time"),
    Figure("cpu_time_seconds", "cpu_time"),
    Figure("children_cpu_time_seconds", "children_cpu_time"),
    Figure("peak_memory_bytes", "peak_memory"),
    Figure("input_bytes", "input_size"),
    Figure("output_bytes", "output_size"),
)


@dataclass(frozen=True, slots=True)
class StageChange:
    """The stages of a path, before and after; None where there are none."""

    path: tuple[str, ...]
    before: StageTotals | None
    after: StageTotals | None


_COMPILING: Final = re.compile(
    r"compil|build|lower|code_?gen|assembl|(?<![a-z])(?:link(?:ing|er)?|jit|ptx(?:as)?|cubin|tt?g?ir|llir|mlir|llvm|nvcc|hipcc"
    r"|gcc|g\+\+|c\+\+|cc|clang|ld|ninja|c?make|bisheng|trtexec)(?![a-z])",
    re.IGNORECASE,
)


def is_compiling(stage: Stage) -> bool:
    """Whether a stage makes a program out of a source, by its name or that of its command's program."""
    program = re.split(r"[/\\]", stage.command[0])[-1] if stage.command else ""
    return any(_COMPILING.search(name[:_MAX_NAME]) for name in (stage.name, program))


def actions_around(task: Task) -> dict[SpanId, Action]:
    """By the ids of a task's actions and stages, the action that each is in; an action is in itself.

    Stages of the task itself are not there.
    """
    actions = {(action.trace_id, action.span_id): action for action in task.actions if action.span_id}
    parents = {(stage.trace_id, stage.span_id): (stage.trace_id, stage.parent_id) for stage in task.stages}
    found: dict[SpanId, Action | None] = dict(actions)
    for key in parents:
        chain: list[SpanId] = []
        here = key
        while here not in found and here in parents:
            found[here] = None  # until more is known: an index may have circles
            chain.append(here)
            here = parents[here]
        found.update(dict.fromkeys(chain, found.get(here)))
    return {key: action for key, action in found.items() if action is not None}


def told_by_actions(task: Task) -> dict[SpanId, frozenset[str]]:
    """By a stage's ids, signatures of what the log of the action around it says: there it is said again."""
    around = actions_around(task)
    told = {id(action): frozenset(one.signature for one in action.diagnostics) for action in around.values()}
    stages = [(stage.trace_id, stage.span_id) for stage in task.stages]
    return {key: told[id(around[key])] for key in stages if key in around}


def placed_stages(task: Task, step: int | None = None) -> list[PlacedStage]:
    """The stages of a task by start, each followed by those inside it; with ``step`` those of its actions."""
    around = actions_around(task)
    by_id = {(stage.trace_id, stage.span_id): stage for stage in task.stages}
    inside: dict[SpanId, list[SpanId]] = {}
    for key, stage in by_id.items():
        inside.setdefault((stage.trace_id, stage.parent_id), []).append(key)
    outermost = [key for key, stage in by_id.items() if (stage.trace_id, stage.parent_id) not in by_id]
    placed: dict[SpanId, PlacedStage] = {}
    # An index may have circles, which no outermost one leads to.
    for first in (*outermost, *by_id):
        left: list[tuple[SpanId, tuple[str, ...]]] = [(first, ())]
        while left:
            key, names = left.pop()
            if key in placed:
                continue
            stage, action = by_id[key], around.get(key)
            path = (*names[:_MAX_DEPTH], stage.name)
            whole = by_id.get((stage.trace_id, stage.parent_id), action)
            time = task.summary.wall_time if whole is None else whole.duration
            placed[key] = PlacedStage(stage, action, path, share_of(stage.duration, time))
            left += [(one, path) for one in reversed(inside.get(key, []))]
    return [one for one in placed.values() if step is None or (one.action and one.action.step == step)]


def changes_of(before: Iterable[PlacedStage], after: Iterable[PlacedStage]) -> list[StageChange]:
    """What became of stages, by path: those of one path are taken together.

    They come in the order that they had before; new ones follow the one that they now come behind.
    """
    then, now = _by_path(before), _by_path(after)
    new: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    last: tuple[str, ...] = ()
    for path in now:
        if path in then:
            last = path
        else:
            new.setdefault(last, []).append(path)
    paths = [
        path for known in ((), *then) for path in ((known, *new.get(known, [])) if known else new.get((), []))
    ]
    return [StageChange(path, _totals(then.get(path)), _totals(now.get(path))) for path in paths]


def share_of(part: float | None, whole: float | None) -> float | None:
    """What share of a whole a part is; None where one is not known, or the whole is nothing."""
    return part / whole if part is not None and whole else None


def difference_of(before: float | None, after: float | None) -> float | None:
    """How much more it is after; None where a side is not known."""
    return None if before is None or after is None else after - before


def _by_path(placed: Iterable[PlacedStage]) -> dict[tuple[str, ...], list[Stage]]:
    found: dict[tuple[str, ...], list[Stage]] = {}
    for one in placed:
        found.setdefault(one.path, []).append(one.stage)
    return found


def _totals(stages: Sequence[Stage] | None) -> StageTotals | None:
    if not stages:
        return None
    peaks = [stage.peak_memory for stage in stages if stage.peak_memory is not None]
    return StageTotals(
        len(stages),
        sum(bool(stage.error) for stage in stages),
        _sum([stage.duration for stage in stages]),
        _sum([stage.cpu_time for stage in stages]),
        _sum([stage.children_cpu_time for stage in stages]),
        max(peaks, default=None),
        _sum([stage.input_size for stage in stages]),
        _sum([stage.output_size for stage in stages]),
    )


def _sum(numbers: Sequence[_Number | None]) -> _Number | None:
    known = [number for number in numbers if number is not None]
    return functools.reduce(operator.add, known) if len(known) == len(numbers) else None
