"""Rules about tasks together: how many there are, and how many passed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from otel_kernel_trace.checking.context import Context, Judge, by_op, finding, limited, unmeasured
from otel_kernel_trace.checking.health import Finding, is_at_most, shown
from otel_kernel_trace.checking.rules import Rule
from otel_kernel_trace.fingerprint.fingerprint import Fingerprint
from otel_kernel_trace.reader.comparison import fisher
from otel_kernel_trace.reader.model import Outcome

_Z = 1.959963984540054
"""Of a normal distribution 95 % lie this many standard deviations around its middle."""


def _minimum_tasks(rule: Rule, context: Context) -> Iterator[Finding]:
    yield limited(rule, len(context.tasks), rule.limit, at_least=True)


def _no_op_missing(rule: Rule, context: Context) -> Iterator[Finding]:
    here = by_op(context.tasks)
    for op_name, tasks in by_op(context.before).items():
        status = "held" if op_name in here else "failed"
        told = f"the baseline has {len(tasks)} of its tasks, here there are {len(here.get(op_name, ()))}"
        yield finding(rule, "held" if status == "held" else "failed", told, op_name=op_name)


def _minimum_rate(rule: Rule, context: Context) -> Iterator[Finding]:
    passed, everything = _passed(context.tasks)
    if not everything:
        yield unmeasured(rule, _UNKNOWN)
        return
    low, high = likely(passed, everything)
    note = f"; {passed} of {everything} passed, which goes with rates from {low:.2g} to {high:.2g}"
    yield limited(rule, passed / everything, rule.limit, at_least=True, note=note)


def _rate_may_fall(rule: Rule, context: Context) -> Iterator[Finding]:
    now, before = by_op(context.tasks), by_op(context.before)
    both = now.keys() & before.keys()
    if not both:
        yield unmeasured(rule, "no op is both here and in the baseline")
        return
    passed, everything = _passed([task for op_name in both for task in now[op_name]])
    earlier, all_earlier = _passed([task for op_name in both for task in before[op_name]])
    if not all_earlier:
        yield finding(rule, "skipped", f"nothing to compare with in the baseline: {_UNKNOWN}")
        return
    if not everything:
        yield unmeasured(rule, _UNKNOWN)
        return
    rate, limit = passed / everything, earlier / all_earlier - rule.limit
    p_value = fisher(earlier, all_earlier, passed, everything)
    counts = f"{earlier} of {all_earlier} passed in the baseline, {passed} of {everything} here"
    chance = f"{counts}; p = {p_value:.2g} of Fisher's exact test"
    if rule.significance is not None and p_value > rule.significance and not is_at_most(limit, rate):
        told = f"{shown(rate)}, at least {shown(limit)}, and the fall may well be chance: {chance}"
        yield finding(rule, "held", told, value=rate, limit=limit)
    else:
        yield limited(rule, rate, limit, at_least=True, note=f"; {chance}")


_UNKNOWN = "the tree has no index that would say how tasks ended"


def _passed(tasks: Sequence[Fingerprint]) -> tuple[int, int]:
    """How many tasks passed, and of how many; one that died or was not verified did not pass."""
    known = [task for task in tasks if task.outcome is not Outcome.UNKNOWN]
    return sum(task.outcome is Outcome.PASSED for task in known), len(tasks) if known else 0


def likely(passed: int, everything: int) -> tuple[float, float]:
    """The rates that a count goes with: Wilson's interval of 95 %, for ``everything`` above 0.

    https://doi.org/10.1080/01621459.1927.10502953
    """
    rate, z2 = passed / everything, _Z * _Z
    middle = (rate + z2 / (2 * everything)) / (1 + z2 / everything)
    spread = math.sqrt(rate * (1 - rate) / everything + z2 / (4 * everything * everything))
    half = _Z * spread / (1 + z2 / everything)
    return max(0.0, middle - half), min(1.0, middle + half)


JUDGES: Final[Mapping[str, Judge]] = {
    "tasks.minimum": _minimum_tasks,
    "tasks.no_op_missing": _no_op_missing,
    "pass_rate.minimum": _minimum_rate,
    "pass_rate.may_fall": _rate_may_fall,
}
