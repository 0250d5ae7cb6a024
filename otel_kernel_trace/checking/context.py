"""What a rule is judged by, and how its findings are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from otel_kernel_trace.checking.health import Finding, Status, judged
from otel_kernel_trace.checking.rules import Rule, is_named
from otel_kernel_trace.fingerprint.fingerprint import Fingerprint
from otel_kernel_trace.reader.timeline import Price

TaskKey = tuple[str, str]
"""Op name and task id."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a task's logs have a message that should not be there."""

    message: str
    """As the rule has it."""
    is_pattern: bool
    """Whether that is a regular expression."""
    times: int
    """How many lines have it."""
    text: str
    """The first of them."""
    file: str = ""
    """Below the tree's root; empty where no file has it."""
    line: int = 0
    """From 1."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What came of looking for forbidden messages in the logs of a task."""

    sightings: tuple[Sighting, ...] = ()
    logs: int = 0
    """How many were looked at."""
    unread: tuple[str, ...] = ()
    """What could not be looked at, and why."""


@dataclass(frozen=True, slots=True)
class Context:
    """What there is to judge by."""

    tasks: Sequence[Fingerprint]
    before: Sequence[Fingerprint] = ()
    """Of the baseline."""
    searched: Mapping[TaskKey, Searched] = field(default_factory=lambda: MappingProxyType({}))
    prices: Mapping[str, Price] = field(default_factory=lambda: MappingProxyType({}))

    def narrowed(self, rule: Rule) -> Context:
        """The same for the ops that a rule is for alone."""
        return Context(
            [task for task in self.tasks if is_named(task.op_name, rule.ops)],
            [task for task in self.before if is_named(task.op_name, rule.ops)],
            self.searched,
            self.prices,
        )


Judge = Callable[[Rule, Context], Iterable[Finding]]
"""What says whether a rule holds. Pure; the context is narrowed to the rule's ops."""


def finding(
    rule: Rule,
    status: Status,
    message: str,
    task: Fingerprint | None = None,
    *,
    op_name: str = "",
    subject: str = "",
    value: float | None = None,
    limit: float | None = None,
    unit: str = "",
    file: str = "",
    line: int = 0,
) -> Finding:
    """A finding of a rule, about a task, an op, or all."""
    return Finding(
        rule=rule.name,
        status=status,
        message=f"{subject}: {message}" if subject else message,
        op_name=task.op_name if task else op_name,
        task_id=task.task_id if task else "",
        subject=subject,
        value=value,
        limit=limit,
        unit=unit,
        file=file,
        line=line,
        rule_line=rule.line,
    )


def unmeasured(
    rule: Rule, why: str, task: Fingerprint | None = None, *, op_name: str = "", subject: str = ""
) -> Finding:
    """A finding that the tree does not tell; it fails, unless the rule is optional."""
    status: Status = "skipped" if rule.is_optional else "not measured"
    return finding(rule, status, why, task, op_name=op_name, subject=subject, limit=rule.limit)


def limited(
    rule: Rule,
    value: float,
    limit: float,
    task: Fingerprint | None = None,
    *,
    at_least: bool,
    unit: str = "",
    op_name: str = "",
    subject: str = "",
    note: str = "",
) -> Finding:
    """A finding about a number and its limit."""
    status, told = judged(value, limit, at_least=at_least, unit=unit)
    return finding(
        rule,
        status,
        told + note,
        task,
        op_name=op_name,
        subject=subject,
        value=value,
        limit=limit,
        unit=unit,
    )


def by_op(tasks: Iterable[Fingerprint]) -> dict[str, list[Fingerprint]]:
    """Tasks by op, in the order in which ops come."""
    found: dict[str, list[Fingerprint]] = {}
    for task in tasks:
        found.setdefault(task.op_name, []).append(task)
    return found


def pairs(
    rule: Rule, context: Context
) -> Iterator[tuple[str, list[Fingerprint], list[Fingerprint]] | Finding]:
    """Ops with their tasks now and before; a finding for an op that is on one side alone."""
    now, before = by_op(context.tasks), by_op(context.before)
    for op_name in dict.fromkeys((*now, *before)):
        if op_name not in before:
            yield finding(rule, "skipped", "new: the baseline has no such op", op_name=op_name)
        elif op_name not in now:
            yield unmeasured(
                rule, "the baseline has tasks of this op, and here there is none", op_name=op_name
            )
        else:
            yield op_name, now[op_name], before[op_name]
