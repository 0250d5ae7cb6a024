"""Where the time of a task went. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from otel_kernel_trace.actions import Agent
from otel_kernel_trace.reader.model import Action, Task, Tokens
from otel_kernel_trace.reader.stages import actions_around, is_compiling


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that took time."""

    name: str
    kind: str
    """``task``, ``action``, ``stage`` or ``model``."""
    start: int
    end: int
    is_error: bool
    step: int
    """0 for a task, and for what is in no action."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Nanoseconds of a task's runs, by what they were spent on; together they are its wall time."""

    model: int = 0
    """A model was asked."""
    compile: int = 0
    """A stage compiled (see :func:`~otel_kernel_trace.reader.stages.is_compiling`), and no model was asked:
    one inside an action, or one outside of all as long as no action was at work."""
    verify: int = 0
    """A Verifier was at work, and neither a model was nor a compiler."""
    waiting: int = 0
    """No action was at work, and no stage."""
    unaccounted: int = 0
    """Another agent was at work, and nothing says on what: its model's instrumentation is not there; or
    a stage outside of all actions that does not compile."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.model + self.compile + self.verify + self.waiting + self.unaccounted


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in a currency of the user's, for a million tokens."""

    input: float
    output: float


def bars_of(task: Task) -> list[Bar]:
    """What has both a start and an end, by start."""
    bars = [Bar("task", "task", start, end, False, 0) for start, end in task.runs if end is not None]
    bars += [
        Bar(a.action_type, "action", a.start, a.end, bool(a.error), a.step)
        for a in task.actions
        if a.start is not None and a.end is not None
    ]
    steps = {key: action.step for key, action in actions_around(task).items()}
    bars += [
        Bar(s.name, "stage", s.start, s.end, bool(s.error), steps.get((s.trace_id, s.span_id), 0))
        for s in task.stages
        if s.start is not None and s.end is not None
    ]
    bars += [
        Bar(
            c.model or c.name, "model", c.start, c.end, bool(c.error), steps.get((c.trace_id, c.parent_id), 0)
        )
        for c in task.model_calls
        if c.start is not None and c.end is not None
    ]
    return sorted(bars, key=lambda bar: (bar.start, -bar.end))


def spent(task: Task) -> Spent:
    """Where a task's wall time went. What went on at once is counted once, a model's time first."""
    around = actions_around(task)
    inner: list[tuple[int, int]] = []
    outer: list[tuple[int, int]] = []
    strange: list[tuple[int, int]] = []
    for stage in task.stages:
        if stage.start is not None and stage.end is not None:
            is_inside = (stage.trace_id, stage.span_id) in around
            if is_compiling(stage):
                (inner if is_inside else outer).append((stage.start, stage.end))
            elif not is_inside:
                strange.append((stage.start, stage.end))
    calls = [(c.start, c.end) for c in task.model_calls if c.start is not None and c.end is not None]
    verifiers = list(_times(task.actions, is_verifier=True))
    others = list(_times(task.actions, is_verifier=False))
    runs: dict[str, list[tuple[int, int]]] = {}
    for action in task.actions:
        if action.start is not None and action.end is not None:
            runs.setdefault(action.trace_id, []).append((action.start, action.end))
    whole = [(min(s for s, _ in times), max(e for _, e in times)) for times in runs.values()]
    whole += [(start, end) for start, end in task.runs if end is not None]
    # Each has what those before it left.
    model, compiling, verify, unaccounted, around_all, unknown, waiting = _lengths_left(
        [calls, inner, verifiers, others, outer, strange, whole]
    )
    return Spent(model, compiling + around_all, verify, waiting, unaccounted + unknown)


def cost_of(tokens_by_model: Iterable[tuple[str, Tokens]], prices: Mapping[str, Price]) -> float | None:
    """What tokens cost; None where a model that was paid for has no price."""
    total = 0.0
    for model, tokens in tokens_by_model:
        if not tokens:
            continue
        price = prices.get(model)
        if price is None:
            return None
        total += (tokens.input * price.input + tokens.output * price.output) / 1e6
    return total


def tokens_by_model(actions: Iterable[Action]) -> list[tuple[str, Tokens]]:
    """Tokens of actions, by model."""
    found: dict[str, Tokens] = {}
    for action in actions:
        if action.tokens:
            found[action.model] = found.get(action.model, Tokens()) + action.tokens
    return sorted(found.items())


def _times(actions: Iterable[Action], *, is_verifier: bool) -> Iterable[tuple[int, int]]:
    for action in actions:
        is_timed = action.start is not None and action.end is not None
        if is_timed and (action.agent is Agent.VERIFIER) is is_verifier:
            yield action.start or 0, action.end or 0


def _union(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _lengths_left(kinds: Iterable[Iterable[tuple[int, int]]]) -> list[int]:
    """How long something of each kind went on while nothing of the kinds before it did."""
    lengths: list[int] = []
    so_far: list[tuple[int, int]] = []
    for intervals in kinds:
        so_far = _union([*so_far, *intervals])
        lengths.append(sum(end - start for start, end in so_far) - sum(lengths))
    return lengths
