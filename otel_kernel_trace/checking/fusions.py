"""Rules about what a builder such as TensorRT made one, and what it did not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from otel_kernel_trace.checking.context import Context, Judge, finding, limited, pairs, unmeasured
from otel_kernel_trace.checking.health import Finding
from otel_kernel_trace.checking.rules import Rule, is_named
from otel_kernel_trace.fingerprint.fingerprint import Fingerprint

_NO_BUILDER = "no builder's log tells of fusions"


def _minimum(rule: Rule, context: Context) -> Iterator[Finding]:
    for task in context.tasks:
        if task.fusions_made is None:
            yield unmeasured(rule, _NO_BUILDER, task)
        else:
            note = _refusals(task) if task.fusions_made < rule.limit else ""
            yield limited(rule, task.fusions_made, rule.limit, task, at_least=True, note=note)


def _minimum_rate(rule: Rule, context: Context) -> Iterator[Finding]:
    for task in context.tasks:
        if task.fusion_rate is None:
            yield unmeasured(rule, "no builder's log tells a rate of fusions", task)
        else:
            note = _refusals(task) if task.fusion_rate < rule.limit else ""
            yield limited(rule, task.fusion_rate, rule.limit, task, at_least=True, note=note)


def _maximum_refused(rule: Rule, context: Context) -> Iterator[Finding]:
    for task in context.tasks:
        if task.fusions_refused is None:
            yield unmeasured(rule, _NO_BUILDER, task)
        else:
            note = _refusals(task)
            yield limited(rule, task.fusions_refused, rule.limit, task, at_least=False, note=note)


def _made(rule: Rule, context: Context) -> Iterator[Finding]:
    for task in context.tasks:
        if task.fusions_made is None:
            yield unmeasured(rule, _NO_BUILDER, task)
            continue
        missing_lines = task.fusions_made - len(task.fused)
        for pattern in rule.texts:
            if any(is_named(layers, (pattern,)) for layers in task.fused):
                yield finding(rule, "held", "was made", task, subject=pattern)
            elif missing_lines > 0:
                why = f"not among the {len(task.fused)} fusions that are named; {missing_lines} are not"
                yield unmeasured(rule, why, task, subject=pattern)
            else:
                yield finding(rule, "failed", f"was not made{_refusals(task)}", task, subject=pattern)


def _not_refused(rule: Rule, context: Context) -> Iterator[Finding]:
    for task in context.tasks:
        if task.fusions_refused is None:
            yield unmeasured(rule, _NO_BUILDER, task)
            continue
        missing_lines = task.fusions_refused - len(task.refused)
        for pattern in rule.texts:
            refused = [one for one in task.refused if is_named(one.layers, (pattern,))]
            if refused:
                told = "; ".join(f"{one.layers}: {one.reason or 'no reason given'}" for one in refused)
                yield finding(
                    rule,
                    "failed",
                    f"was refused: {told}",
                    task,
                    subject=pattern,
                    value=len(refused),
                    limit=0,
                )
            elif missing_lines > 0:
                why = f"not among the {len(task.refused)} refusals that are named; {missing_lines} are not"
                yield unmeasured(rule, why, task, subject=pattern)
            else:
                yield finding(rule, "held", "was not refused", task, subject=pattern)


def _may_fall(rule: Rule, context: Context) -> Iterator[Finding]:
    for pair in pairs(rule, context):
        if isinstance(pair, Finding):
            yield pair
            continue
        op_name, tasks, earlier = pair
        now, before = (_fewest(side, rule.key) for side in (tasks, earlier))
        if before is None:
            yield finding(rule, "skipped", f"nothing to compare with: {_NO_BUILDER}", op_name=op_name)
        elif now is None:
            yield unmeasured(rule, _NO_BUILDER, op_name=op_name)
        else:
            limit = before - rule.limit
            note = f"; the baseline has {before:.4g}"
            yield limited(rule, now, limit, at_least=True, op_name=op_name, note=note)


def _fewest(tasks: list[Fingerprint], key: str) -> float | None:
    """The least of any task of an op: one build that fell back is enough."""
    values = [task.fusion_rate if key == "rate_may_fall" else task.fusions_made for task in tasks]
    return min((value for value in values if value is not None), default=None)


def _refusals(task: Fingerprint) -> str:
    return "".join(f"; refused: {one.layers} {one.reason}".rstrip() for one in task.refused[:5])


JUDGES: Final[Mapping[str, Judge]] = {
    "fusions.minimum": _minimum,
    "fusions.minimum_rate": _minimum_rate,
    "fusions.maximum_refused": _maximum_refused,
    "fusions.made": _made,
    "fusions.not_refused": _not_refused,
    "fusions.may_fall": _may_fall,
    "fusions.rate_may_fall": _may_fall,
}
