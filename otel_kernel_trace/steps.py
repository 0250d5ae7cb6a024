"""Which step an action has on disk.

A span says which step it is in its own run. On disk a step belongs to one action,
whoever wrote it: an earlier run of the task, another process, another thread. So
the first to claim a step has it, and who comes later goes on after the last one.
A Conductor's action goes where the one it judges went.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.layout import Layout
from otel_kernel_trace.names import safe_name
from otel_kernel_trace.recent import Recent
from otel_kernel_trace.record import Record
from otel_kernel_trace.store import PRIVATE, Counter, Folder, Store

_Task = tuple[str, str]

_MAX_TASKS = 1024
_MAX_MOVED = 4096
_MAX_GAPS = 64

# Each is an open file, so there are few of them, however many trees there are. A forked
# child opens its own: the parent's file locks would not keep it out.
_counters: Recent[tuple[str, _Task], Counter] = Recent(32, forget_in_child=True)

_UNCOUNTED = "~uncounted"
"""Marks an op whose folder had records before its steps were counted. No task is called so on disk."""


class StepNumbers(Protocol):
    """Gives every action a step. Thread-safe; raises ``OSError`` where it has to read the disk."""

    def reserve(self, op_name: str, task_id: str) -> int | None:
        """The next step of a task, kept for a record to come with it; None where spans decide."""

    def claim(self, record: Record, *, was_taken: bool = False) -> int:
        """The step for a Designer's, Coder's, Verifier's or other agent's action.

        Args:
            record: the action.
            was_taken: the step claimed before turned out to hold somebody else's files.
        """

    def judged(self, record: Record) -> int:
        """The step of the action that a Conductor's action judges."""


class StepsAsGiven:
    """Steps as the spans have them; where they have none, counted from 1 in this process."""

    def __init__(self) -> None:
        self._last: Recent[_Task, int] = Recent(_MAX_TASKS)
        self._lock = threading.Lock()
        after_fork_in_child(self)

    def reserve(self, op_name: str, task_id: str) -> int | None:
        return None

    def claim(self, record: Record, *, was_taken: bool = False) -> int:
        return self._next((record.op_name, record.task_id), None if was_taken else record.step)

    def judged(self, record: Record) -> int:
        if record.step is not None:
            return record.step
        return self._last.get((record.op_name, record.task_id)) or 0

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def _next(self, task: _Task, wanted: int | None) -> int:
        with self._lock:
            last = self._last.get(task) or 0
            step = last + 1 if wanted is None else wanted
            self._last.put(task, max(step, last))
            return step


class StepsOnDisk:
    """Steps that nobody else has, counted across processes and runs."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self._store = store
        self._layout = layout
        # What the parent keeps free is the parent's.
        self._gaps: Recent[_Task, _Gaps] = Recent(_MAX_TASKS, forget_in_child=True)
        self._moved: Recent[tuple[_Task, int, int], int] = Recent(_MAX_MOVED)
        self._latest: _Known | None = None
        self._lock = threading.Lock()
        after_fork_in_child(self)

    def reserve(self, op_name: str, task_id: str) -> int | None:
        task = (op_name, task_id)
        with self._lock:
            known = self._known(task)
            if known.counter.is_gone:
                known = self._open(task)
            before, step = known.counter.advance(None, known.start)
            known.gaps.add(max(before, 0) + 1, step)
        return step

    def claim(self, record: Record, *, was_taken: bool = False) -> int:
        task = (record.op_name, record.task_id)
        wanted = record.step
        with self._lock:
            known = self._known(task)
            if wanted is not None and not was_taken and known.gaps.take(wanted):
                return wanted
            least = self._last_on_disk(task) if was_taken else -1
            before, step = known.counter.advance(wanted, known.start, least)
            known.gaps.add(max(before, 0) + 1, step - 1)
            if wanted is not None and step != wanted:
                self._moved.put((task, record.trace_id, wanted), step)
        return step

    def judged(self, record: Record) -> int:
        task = (record.op_name, record.task_id)
        with self._lock:
            if record.step is not None:
                moved = self._moved.get((task, record.trace_id, record.step))
                return record.step if moved is None else moved
            known = self._known(task)
            number = known.counter.number
            return max(known.start() if number is None else number, 0)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._latest = None

    def _known(self, task: _Task) -> _Known:
        # Most actions are of the same task as the one before.
        latest = self._latest
        if latest is None or latest.task != task:
            # What another exporter, or this one long ago, had open may have been removed since.
            counter = _counters.get((self._store.root, task)) if self._gaps.get(task) else None
            self._latest = latest = self._open(task) if counter is None else self._with(task, counter)
        return latest

    def _open(self, task: _Task) -> _Known:
        counter = _counters.put((self._store.root, task), self._open_counter(task))
        self._latest = self._with(task, counter)
        return self._latest

    def _with(self, task: _Task, counter: Counter) -> _Known:
        gaps = self._gaps.get(task) or self._gaps.put(task, _Gaps())
        return _Known(task, counter, gaps, partial(self._last_uncounted, task))

    def _open_counter(self, task: _Task) -> Counter:
        op_name, task_id = task
        counters = self._counters_folder(op_name)
        is_new = self._store.make_folder(counters)
        has_no_records = self._store.make_folder(self._layout.folder(op_name))
        if is_new and not has_no_records:
            self._store.publish([(counters, _UNCOUNTED, b"")])
        elif has_no_records and not is_new:
            # Somebody removed the records: their numbers are free again.
            self._store.empty_folder(counters)
        return self._store.open_counter(counters, safe_name(task_id))

    def _counters_folder(self, op_name: str) -> Folder:
        return (PRIVATE, "steps", *self._layout.folder(op_name))

    def _last_uncounted(self, task: _Task) -> int:
        """The last step of a task that has no number yet.

        Looking through a folder is slow where it is large, so it is done only where
        records may be older than the counters.
        """
        if not self._store.exists(self._counters_folder(task[0]), _UNCOUNTED):
            return -1
        return self._last_on_disk(task)

    def _last_on_disk(self, task: _Task) -> int:
        """The highest step that has files, -1 for none."""
        op_name, task_id = task
        try:
            entries = self._store.entries(self._layout.folder(op_name))
        except FileNotFoundError:
            return -1
        return max(self._layout.steps_among(entries, op_name, task_id), default=-1)


class _Known(NamedTuple):
    """What a process has at hand of a task."""

    task: _Task
    counter: Counter
    gaps: _Gaps
    start: Callable[[], int]


class _Gaps:
    """Steps below the last one that this process passed over, and that are therefore its own.

    Actions of a task may end in another order than they began.
    """

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, first: int, last: int) -> None:
        if first <= last:
            self._ranges.append((first, last))
            del self._ranges[:-_MAX_GAPS]

    def take(self, step: int) -> bool:
        for index, (first, last) in enumerate(self._ranges):
            if first <= step <= last:
                self._ranges[index : index + 1] = [
                    part for part in ((first, step - 1), (step + 1, last)) if part[0] <= part[1]
                ]
                return True
        return False
