"""What a check found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Status = Literal["held", "failed", "not measured", "skipped"]
"""``not measured``: the tree does not tell, which is no reason to let it pass; ``skipped``: the same
where the rule is optional, or where the baseline has nothing to compare with."""


class UnhealthyError(RuntimeError):
    """Some rule does not hold; the message says which, and by how much."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one rule for one task, one op, or all of them."""

    rule: str
    """``speedup.minimum``: table and key of the rules."""
    status: Status
    message: str
    """In a sentence, with names from the tree as they are there."""
    op_name: str = ""
    """Empty where it is about all ops."""
    task_id: str = ""
    """Empty where it is about several tasks."""
    subject: str = ""
    """The kernel, stage, fusion or message that it is about, where there are several."""
    value: float | None = None
    limit: float | None = None
    unit: str = ""
    """Of both: ``x``, ``s``, ``MiB`` …; empty for a number of things and for a share."""
    file: str = ""
    """Where in the tree it is seen, below its root; empty where no file shows it."""
    line: int = 0
    """There, from 1; 0 for none."""
    rule_line: int = 0
    """Of the file of rules, from 1; 0 for none."""

    @property
    def is_failure(self) -> bool:
        """Whether it fails the check."""
        return self.status in ("failed", "not measured")

    @property
    def difference(self) -> float | None:
        """By how much the value is over the limit; negative below it."""
        return None if self.value is None or self.limit is None else self.value - self.limit

    @property
    def share(self) -> float | None:
        """The same in relation to the limit: 0.1 is a tenth over it; None for a limit of 0."""
        return self.difference / abs(self.limit) if self.difference is not None and self.limit else None

    @property
    def where(self) -> str:
        """Which task, op or all."""
        return " · ".join(filter(None, (self.op_name, self.task_id))) or "all tasks"


@dataclass(frozen=True, slots=True)
class Health:
    """What came of a check."""

    findings: tuple[Finding, ...]
    """What is about all tasks first, then task by task."""
    tasks: int
    """How many were looked at."""

    @property
    def is_healthy(self) -> bool:
        """Whether every rule holds. False without a finding: nothing was looked at."""
        return bool(self.findings) and not self.failures

    @property
    def failures(self) -> tuple[Finding, ...]:
        """What fails the check."""
        return tuple(finding for finding in self.findings if finding.is_failure)

    @property
    def counts(self) -> Mapping[Status, int]:
        """How many findings have which status."""
        return Counter(finding.status for finding in self.findings)

    def raise_for_failures(self) -> None:
        """Nothing where every rule holds.

        Raises:
            UnhealthyError: a :class:`RuntimeError`, as one does not.
        """
        if not self.is_healthy:
            told = [f"{one.where}: {one.rule}: {one.message}" for one in self.failures]
            raise UnhealthyError("\n".join(told) or "nothing was checked")


def is_at_most(value: float, limit: float) -> bool:
    """Whether a value keeps to a limit; one that differs by rounding alone does."""
    return value <= limit or math.isclose(value, limit, rel_tol=1e-9)


def judged(value: float, limit: float, *, at_least: bool, unit: str = "") -> tuple[Status, str]:
    """Whether a value keeps to its limit, and in words by how much it does not."""
    holds = is_at_most(limit, value) if at_least else is_at_most(value, limit)
    bound = "at least" if at_least else "at most"
    told = f"{shown(value, unit)}, {bound} {shown(limit, unit)}"
    if holds:
        return "held", told
    short = abs(value - limit)
    percent = 100 * short / abs(limit) if limit else 0
    share = f" ({percent:.3g} %)" if percent < 1000 else f" ({percent:.0f} %)"
    beyond = "short" if at_least else "too much"
    return "failed", f"{told}: {shown(short, unit)} {beyond}{share if limit else ''}"


def shown(value: float, unit: str = "") -> str:
    """A number for people, with its unit: ``1.25x``, ``64 B``, ``12345``."""
    text = f"{value:.4g}" if abs(value) < 1e4 and value != int(value) else f"{value:.0f}"
    return f"{text}{unit}" if unit in ("", "x") else f"{text} {unit}"
