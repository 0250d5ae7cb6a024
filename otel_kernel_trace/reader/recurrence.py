"""Which attempts failed with the same error. Pure functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from otel_kernel_trace.diagnostics import Diagnostic, first_error
from otel_kernel_trace.reader.model import Action

STALL: Final = 3
"""As many attempts in a row with the same error are called a stall."""

_MAX_STEPS = 8


@dataclass(frozen=True, slots=True)
class Recurrence:
    """That an action failed with an error that was there before."""

    times: int
    """How many earlier actions did."""
    steps: tuple[int, ...]
    """Steps of the last few of these."""


def error_of(action: Action) -> Diagnostic | None:
    """The first error that the log of an action tells; None where it tells none, or the action passed."""
    return None if action.passed else first_error(action.diagnostics)


def recurrences(actions: Iterable[Action]) -> Mapping[tuple[int, str, int], Recurrence]:
    """Those of a task's actions, by step, action type and copy, that failed as an earlier step did.

    Args:
        actions: of a task, by step.
    """
    seen: dict[str, tuple[int, deque[int]]] = {}
    found: dict[tuple[int, str, int], Recurrence] = {}
    for action in actions:
        error = error_of(action)
        if error is None or not error.signature:
            continue
        times, steps = seen.get(error.signature, (0, deque(maxlen=_MAX_STEPS)))
        if times:
            found[action.step, action.action_type, action.copy] = Recurrence(times, tuple(steps))
        steps.append(action.step)
        seen[error.signature] = (times + 1, steps)
    return found
