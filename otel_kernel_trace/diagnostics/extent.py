"""How much of a log is looked at while a pipeline waits."""

from __future__ import annotations

from typing import Final

from opentelemetry.util.types import AttributeValue

MAX_CHARS: Final = 1_000_000
"""Of a longer log the beginning and the end are looked at, half as much each, in a fraction of a second."""


def ends_of(log: AttributeValue) -> str:
    """A log without what is too much of it; lines keep their numbers."""
    if not isinstance(log, str) or len(log) <= MAX_CHARS:
        return log if isinstance(log, str) else ""
    begin, end = MAX_CHARS // 2, len(log) - MAX_CHARS // 2
    return log[:begin] + "\n" * max(log.count("\n", begin, end), 1) + log[end:]
