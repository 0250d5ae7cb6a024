"""Rules about one number of a task: its speedup, its tokens, what it took."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from otel_kernel_trace.checking.context import Context, Judge, finding, limited, pairs, unmeasured
from otel_kernel_trace.checking.health import Finding
from otel_kernel_trace.checking.rules import Rule
from otel_kernel_trace.fingerprint.fingerprint import Fingerprint
from otel_kernel_trace.reader.comparison import stats_of
from otel_kernel_trace.reader.timeline import cost_of

_Tasks = Sequence[Fingerprint]


@dataclass(frozen=True, slots=True)
class _Quantity:
    unit: str
    of_task: Callable[[Fingerprint], float | None]
    of_op: Callable[[_Tasks], float | None]
    """For the tasks of an op together, as it is compared."""
    missing: str
    """Why it is not known, in words."""


def _median_compile_time(tasks: _Tasks) -> float | None:
    known = [task.compile_time for task in tasks if task.compile_time is not None]
    return statistics.median(known) if known else None


def _largest_peak_memory(tasks: _Tasks) -> float | None:
    return max((task.peak_memory_mb for task in tasks if task.peak_memory_mb is not None), default=None)


def _tokens(task: Fingerprint) -> float | None:
    return task.tokens.input + task.tokens.output if task.tokens else None


_SPEEDUP = _Quantity(
    "x",
    lambda task: task.best_speedup,
    lambda tasks: stats_of(tasks).best_speedup,
    "no verification that passed tells a speedup",
)
_STEPS = _Quantity(
    "", lambda task: task.steps or None, lambda tasks: stats_of(tasks).steps, "no task of the op passed"
)
_TOKENS = _Quantity("", _tokens, lambda tasks: stats_of(tasks).tokens, "no model call tells its tokens")
_COMPILE_TIME = _Quantity(
    "s", lambda task: task.compile_time, _median_compile_time, "no compiler's or builder's log tells its time"
)
_PEAK_MEMORY = _Quantity(
    "MiB", lambda task: task.peak_memory_mb, _largest_peak_memory, "no builder's log tells its memory"
)


def _each_task(quantity: _Quantity, *, at_least: bool = False) -> Judge:
    def judge(rule: Rule, context: Context) -> Iterator[Finding]:
        for task in context.tasks:
            value = quantity.of_task(task)
            if value is None:
                yield unmeasured(rule, quantity.missing, task)
            else:
                yield limited(rule, value, rule.limit, task, at_least=at_least, unit=quantity.unit)

    return judge


def _each_op(quantity: _Quantity, *, may_fall: bool = False) -> Judge:
    """That it is not worse than in the baseline by more than a share of what it was there."""

    def judge(rule: Rule, context: Context) -> Iterator[Finding]:
        for pair in pairs(rule, context):
            if isinstance(pair, Finding):
                yield pair
                continue
            op_name, tasks, earlier = pair
            now, before = quantity.of_op(tasks), quantity.of_op(earlier)
            if before is None:
                why = f"nothing to compare with in the baseline: {quantity.missing}"
                yield finding(rule, "skipped", why, op_name=op_name)
            elif now is None:
                yield unmeasured(rule, quantity.missing, op_name=op_name)
            else:
                limit = before * (1 - rule.limit if may_fall else 1 + rule.limit)
                yield limited(
                    rule,
                    now,
                    limit,
                    at_least=may_fall,
                    unit=quantity.unit,
                    op_name=op_name,
                    note=f"; the baseline has {before:.4g}",
                )

    return judge


def _total_tokens(rule: Rule, context: Context) -> Iterator[Finding]:
    known = [tokens for task in context.tasks if (tokens := _tokens(task)) is not None]
    if not known:
        yield unmeasured(rule, _TOKENS.missing)
    else:
        yield limited(rule, sum(known), rule.limit, at_least=False)


def _cost(task: Fingerprint, context: Context) -> float | None:
    return cost_of(task.tokens_by_model.items(), context.prices) if task.tokens_by_model else None


_NO_COST = "no model call tells its tokens, or a model has no price"


def _each_cost(rule: Rule, context: Context) -> Iterator[Finding]:
    for task in context.tasks:
        cost = _cost(task, context)
        if cost is None:
            yield unmeasured(rule, _NO_COST, task)
        else:
            yield limited(rule, cost, rule.limit, task, at_least=False)


def _total_cost(rule: Rule, context: Context) -> Iterator[Finding]:
    costs = [_cost(task, context) for task in context.tasks]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs) or not costs:
        yield unmeasured(rule, f"of {len(costs) - len(known)} tasks: {_NO_COST}")
        return
    total = sum(known)
    if rule.key == "total":
        yield limited(rule, total, rule.limit, at_least=False)
        return
    passed = sum(task.passed > 0 for task in context.tasks)
    if not passed:
        yield unmeasured(rule, f"no kernel passed, for a cost of {total:.4g}")
    else:
        yield limited(rule, total / passed, rule.limit, at_least=False)


def _suspicions(rule: Rule, context: Context) -> Iterator[Finding]:
    for task in context.tasks:
        if not task.verified:
            yield unmeasured(rule, "there is no verification", task)
            continue
        told = "".join(f"; {text}" for text in task.suspicions)
        yield limited(rule, len(task.suspicions), rule.limit, task, at_least=False, note=told)


JUDGES: Final[Mapping[str, Judge]] = {
    "speedup.minimum": _each_task(_SPEEDUP, at_least=True),
    "speedup.may_fall": _each_op(_SPEEDUP, may_fall=True),
    "steps.maximum": _each_task(_STEPS),
    "steps.may_grow": _each_op(_STEPS),
    "tokens.maximum": _each_task(_TOKENS),
    "tokens.total": _total_tokens,
    "tokens.may_grow": _each_op(_TOKENS),
    "cost.maximum": _each_cost,
    "cost.total": _total_cost,
    "cost.for_each_pass": _total_cost,
    "compile_time.maximum": _each_task(_COMPILE_TIME),
    "compile_time.may_grow": _each_op(_COMPILE_TIME),
    "peak_memory.maximum_mb": _each_task(_PEAK_MEMORY),
    "peak_memory.may_grow": _each_op(_PEAK_MEMORY),
    "suspicions.maximum": _suspicions,
}
