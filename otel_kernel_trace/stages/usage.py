"""What a stretch of a process's life takes of the machine."""

from __future__ import annotations

import os
import resource
import time
from typing import NamedTuple

from otel_kernel_trace.stages.memory import most_of_this_process


class Usage(NamedTuple):
    """What a process has used so far."""

    pid: int
    cpu_time: float
    """Seconds of processor time, of all its threads."""
    children_cpu_time: float
    """Seconds of processor time of children that have ended and were waited for, and of theirs."""
    peak_memory: int
    """Bytes."""


class Used(NamedTuple):
    """What a process has used meanwhile. What can't be told is None."""

    cpu_time: float | None = None
    children_cpu_time: float | None = None
    peak_memory: int | None = None
    """Bytes that the process had at most: known where that was more than it ever had before."""


def usage_now() -> Usage:
    """What this process has used so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Usage(
        os.getpid(), time.process_time(), children.ru_utime + children.ru_stime, most_of_this_process()
    )


def used_since(before: Usage) -> Used:
    """What this process has used since.

    The memory's high-water mark is one of the process's whole life. Where it has not risen
    nothing tells how far below it the memory stayed; to reset it (``/proc/self/clear_refs``)
    would spoil the figure for everybody else in the process.
    """
    now = usage_now()
    if now.pid != before.pid:
        return Used()  # a forked child's figures began at zero
    return Used(
        now.cpu_time - before.cpu_time,
        max(0.0, now.children_cpu_time - before.children_cpu_time),
        now.peak_memory if now.peak_memory > before.peak_memory else None,
    )
