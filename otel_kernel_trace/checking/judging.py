"""Whether rules hold. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from otel_kernel_trace.checking import fusions, kernels, logs, numbers, rates
from otel_kernel_trace.checking.context import Context, Judge, unmeasured
from otel_kernel_trace.checking.health import Finding, Health
from otel_kernel_trace.checking.rules import Rule

JUDGES: Final[Mapping[str, Judge]] = {
    **rates.JUDGES,
    **numbers.JUDGES,
    **kernels.JUDGES,
    **fusions.JUDGES,
    **logs.JUDGES,
}
"""Who judges a rule, by the rule's name."""


def judge(rules: Iterable[Rule], context: Context) -> Health:
    """What came of every rule, for all tasks first and then task by task.

    That there is a task at all is a rule, whether it is given or not.
    """
    given = list(rules)
    if not any(rule.name == "tasks.minimum" for rule in given):
        given.insert(0, Rule("tasks", "minimum", 1))
    found = [finding for rule in given for finding in _judged(rule, context)]
    order = {(task.op_name, task.task_id): at for at, task in enumerate(context.tasks, 1)}
    found.sort(key=lambda finding: order.get((finding.op_name, finding.task_id), 0))
    return Health(tuple(found), len(context.tasks))


def _judged(rule: Rule, context: Context) -> Iterator[Finding]:
    narrowed = context.narrowed(rule)
    if not narrowed.tasks and rule.table != "tasks":
        ops = ", ".join(rule.ops)
        yield unmeasured(rule, "there is no task" if ops == "*" else f"there is no task of an op {ops}")
        return
    yield from JUDGES[rule.name](rule, narrowed)
