"""Whether one tree is better than another. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from otel_kernel_trace.reader.model import Outcome, Summary, Tokens

_NOTABLE_SPEEDUP = 0.05
"""A median speedup that differs by less than this share is called the same."""
_SIGNIFICANT = 0.05


class Told(Protocol):
    """What is compared of a task; a :class:`Summary` tells it."""

    @property
    def outcome(self) -> Outcome: ...
    @property
    def first_pass(self) -> int | None: ...
    @property
    def best_speedup(self) -> float | None: ...
    @property
    def tokens(self) -> Tokens: ...


@dataclass(frozen=True, slots=True)
class Stats:
    """The tasks of an op in one tree."""

    tasks: int
    judged: int
    """Tasks that passed or failed; pass rates are of these."""
    passed: int
    best_speedup: float | None
    """Median, over the tasks that passed and were measured, of their best."""
    measured: int
    """How many these are."""
    steps: float | None
    """Median of steps to the first pass."""
    tokens: float | None
    """Median of tokens of the tasks that passed."""

    @property
    def pass_rate(self) -> float | None:
        """None where no task passed or failed."""
        return self.passed / self.judged if self.judged else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """An op in two trees."""

    op_name: str
    before: Stats
    after: Stats
    p_value: float | None
    """How likely a difference of pass rates as large is by chance (Fisher's exact test, two-sided)."""
    regressed: tuple[str, ...]
    """What is worse: ``pass rate``, ``speedup``, ``steps``, ``tokens``."""
    improved: tuple[str, ...]
    basis: str
    """What the verdict rests on, in words."""
    errors: tuple[tuple[str, int, int], ...] = ()
    """What verifications failed with, the most frequent first: signatures, and how often before and after."""


def compare(before: Iterable[Summary], after: Iterable[Summary]) -> list[Comparison]:
    """Ops that are in either tree, by name."""
    sides: tuple[dict[str, list[Summary]], dict[str, list[Summary]]] = ({}, {})
    for side, summaries in zip(sides, (before, after), strict=True):
        for summary in summaries:
            side.setdefault(summary.op_name, []).append(summary)
    found = []
    for op_name in sorted({*sides[0], *sides[1]}):
        then, now = (side.get(op_name, []) for side in sides)
        found.append(replace(_compared(op_name, stats_of(then), stats_of(now)), errors=_errors_of(then, now)))
    return found


def _errors_of(before: Iterable[Summary], after: Iterable[Summary]) -> tuple[tuple[str, int, int], ...]:
    counts: dict[str, list[int]] = {}
    for side, summaries in enumerate((before, after)):
        for summary in summaries:
            for signature, number in summary.errors:
                counts.setdefault(signature, [0, 0])[side] += number
    most_first = sorted(counts.items(), key=lambda error: -sum(error[1]))
    return tuple((signature, then, now) for signature, (then, now) in most_first)


def stats_of(summaries: Iterable[Told]) -> Stats:
    """What the tasks of an op have in common."""
    tasks = list(summaries)
    passed = [task for task in tasks if task.outcome is Outcome.PASSED]
    speedups = [task.best_speedup for task in passed if task.best_speedup is not None]
    tokens = [task.tokens.input + task.tokens.output for task in passed if task.tokens]
    return Stats(
        tasks=len(tasks),
        judged=len(passed) + sum(task.outcome is Outcome.FAILED for task in tasks),
        passed=len(passed),
        best_speedup=statistics.median(speedups) if speedups else None,
        measured=len(speedups),
        steps=statistics.median([task.first_pass or 0 for task in passed]) if passed else None,
        tokens=statistics.median(tokens) if tokens else None,
    )


def _compared(op_name: str, before: Stats, after: Stats) -> Comparison:
    worse: list[str] = []
    better: list[str] = []
    p_value = None
    if before.judged and after.judged:
        p_value = fisher(before.passed, before.judged, after.passed, after.judged)
        _weigh("pass rate", after.pass_rate, before.pass_rate, 0, worse, better)
    _weigh("speedup", after.best_speedup, before.best_speedup, _NOTABLE_SPEEDUP, worse, better)
    _weigh("steps", before.steps, after.steps, 0, worse, better)
    _weigh("tokens", before.tokens, after.tokens, _NOTABLE_SPEEDUP, worse, better)
    return Comparison(
        op_name, before, after, p_value, tuple(worse), tuple(better), _basis(before, after, p_value)
    )


def _weigh(
    name: str, now: float | None, then: float | None, notable: float, worse: list[str], better: list[str]
) -> None:
    """Note whether ``now`` is lower, which is worse, or higher."""
    if now is None or then is None or abs(now - then) <= notable * max(abs(now), abs(then)):
        return
    (better if now > then else worse).append(name)


def _basis(before: Stats, after: Stats, p_value: float | None) -> str:
    if not before.tasks or not after.tasks:
        return "only in one of them"
    if p_value is None:
        return "no task of one of them passed or failed"
    counts = f"{before.passed} of {before.judged} passed, then {after.passed} of {after.judged}"
    if before.passed * after.judged == after.passed * before.judged:
        chance = ""
    elif p_value < _SIGNIFICANT:
        chance = f"; by chance with p = {p_value:.2g}"
    else:
        chance = f"; may well be chance (p = {p_value:.2g})"
    measured = f"; speedups of {before.measured} and {after.measured} tasks"
    return counts + chance + measured


def fisher(passed_a: int, all_a: int, passed_b: int, all_b: int) -> float:
    """Two-sided p-value of Fisher's exact test: that shares of a and b differ as much by chance."""
    passed, everything = passed_a + passed_b, all_a + all_b

    def log_probability(k: int) -> float:
        return _log_choose(all_a, k) + _log_choose(all_b, passed - k) - _log_choose(everything, passed)

    seen = log_probability(passed_a)
    possible = range(max(0, passed - all_b), min(all_a, passed) + 1)
    total = sum(math.exp(p) for k in possible if (p := log_probability(k)) <= seen + 1e-9)
    return min(1.0, total)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
