"""How a task went, from what is known of its actions. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from otel_kernel_trace.reader.lines import Line
from otel_kernel_trace.reader.model import Outcome, Summary, Tokens

_ERROR = re.compile(
    r"\b(?:error|fatal|failed|failure|undefined|timeout|timed out|killed|signal)\b|mismatch|exception",
    re.IGNORECASE,
)

Slot = tuple[int, str, int]
"""Step, action type and copy: what an action of a task is called on disk."""


def summary_of(
    op_name: str,
    task_id: str,
    actions: Mapping[Slot, Line],
    pending: Mapping[Slot, Line],
    roots: Iterable[tuple[bytes, int, int]],
    stages: Sequence[Line] = (),
    *,
    is_indexed: bool = True,
) -> Summary:
    """A task in a line.

    Args:
        op_name, task_id: which.
        actions: those that ended.
        pending: those that began and did not end.
        roots: trace id, start and end of each run's root span.
        stages: those that ended.
        is_indexed: whether it is known when and how actions ended.
    """
    ended_runs = {run for run, _, _ in roots}
    everything = {**actions, **pending}
    verified = {slot: done for slot, done in actions.items() if done.passed is not None}
    passes = {slot: done for slot, done in verified.items() if done.passed}
    failed = [
        slot[0]
        for slot, done in actions.items()
        if done.passed is False or (done.is_error and not done.passed)
    ]
    errors = Counter(done.signature for done in verified.values() if done.signature and not done.passed)
    speedups = [done.speedup for done in passes.values() if done.speedup is not None]
    runs: dict[bytes, tuple[int, int]] = {}
    last, last_start = (0, "", 1), -1
    for slot, done in everything.items():
        start = done.start
        if start > last_start or (start == last_start and slot > last):
            last, last_start = slot, start
        if start:
            _lengthen(runs, done.span[0], start, done.end)
    for run, start, end in [*roots, *((stage.span[0], stage.start, stage.end) for stage in stages)]:
        if start:
            _lengthen(runs, run, start, end)
    return Summary(
        op_name=op_name,
        task_id=task_id,
        outcome=_outcome(
            passes, verified, pending, [*everything.values(), *stages], ended_runs, is_indexed=is_indexed
        ),
        steps=max((slot[0] for slot in everything), default=0),
        actions=len(everything),
        verified=len(verified),
        passed=len(passes),
        first_pass=min((slot[0] for slot in passes), default=None),
        best_speedup=max(speedups, default=None),
        tokens=sum((done.tokens for done in actions.values() if done.tokens), Tokens()),
        start=min((start for start, _ in runs.values()), default=None),
        end=max((end for _, end in runs.values()), default=None),
        wall_time=sum(end - start for start, end in runs.values()) if runs else None,
        pending=len(pending),
        last=last[1],
        last_step=last[0],
        first_failed=min(failed, default=None),
        errors=tuple(errors.most_common()),
        stalled=_stalled(verified) if errors else 0,
    )


def error_line(log: str) -> str:
    """The line that says best what went wrong in a log that no parser knows; empty where the log is.

    The first that speaks of an error, else the first.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "")


def _outcome(
    passes: Collection[Slot],
    verified: Collection[Slot],
    pending: Collection[Slot],
    everything: Iterable[Line],
    ended_runs: Collection[bytes],
    *,
    is_indexed: bool,
) -> Outcome:
    if passes:
        return Outcome.PASSED
    if not is_indexed:
        return Outcome.UNKNOWN
    # Actions of a Trace without a provider have no root, whose end would tell.
    if pending or any(done.has_parent and done.span[0] not in ended_runs for done in everything):
        return Outcome.UNFINISHED
    return Outcome.FAILED if verified else Outcome.UNVERIFIED


def _stalled(verified: Mapping[Slot, Line]) -> int:
    """How many verifications in a row failed with the same error at the end."""
    in_a_row = 0
    signature = ""
    for _, done in sorted(verified.items(), key=_slot_of, reverse=True):
        if done.passed or not done.signature or (signature and done.signature != signature):
            break
        signature = done.signature
        in_a_row += 1
    return in_a_row


def _slot_of(action: tuple[Slot, Line]) -> Slot:
    return action[0]


def _lengthen(runs: dict[bytes, tuple[int, int]], run: bytes, start: int, end: int) -> None:
    """Note what a run has taken; one is called for every action, hence without min and max."""
    end = max(start, end)
    first, last = runs.get(run, (start, end))
    if run not in runs or start < first or end > last:
        runs[run] = (min(first, start), max(last, end))
