"""Which step an action has on disk.

A span says which step it is in its own run. On disk a step belongs to one action,
whoever wrote it: an earlier run of the task, another process, another thread. So
the first to claim a step has it, and who comes later goes on after the last one.
A Conductor's action goes where the one it judges went.
"""

from __future__ import annotations

import threading
from typing import Protocol

from otel_kernel_trace.actions import ActionType
from otel_kernel_trace.attributes import ERROR_LOG, PROMPT
from otel_kernel_trace.counter import Counter
from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.layout import Layout
from otel_kernel_trace.names import safe_name
from otel_kernel_trace.recent import Recent
from otel_kernel_trace.record import Record
from otel_kernel_trace.store import PRIVATE, Folder, Store

_Task = tuple[str, str]

_MAX_TASKS = 1024
_MAX_CLAIMS = 4096

_ANY_RUN = 0
"""Stands for the run of spans without a parent, which do not say of which run they are."""

# Each is an open file, so there are few of them, however many trees there are. A forked
# child opens its own: the parent's file locks would not keep it out.
_counters: Recent[tuple[str, _Task], Counter] = Recent(32, forget_in_child=True)

_COUNTED = "~counted"
"""Marks an op all of whose records were counted from the first on. No task is called so on disk."""


class StepNumbers(Protocol):
    """Gives every action a step. Thread-safe; raises ``OSError`` where it has to read the disk."""

    def reserve(self, op_name: str, task_id: str) -> int | None:
        """The next step of a task, kept for a record to come with it; None where spans decide."""

    def learn(self, span_id: int, step: int) -> None:
        """An action that is on disk already."""

    def keep(self, op_name: str, task_id: str, run: int, steps: int) -> int | None:
        """Keep the next steps of a task for other processes of the run; gives the step before them."""

    def claim(self, record: Record, *, was_taken: bool = False) -> int:
        """The step for a Designer's, Coder's, Verifier's or other agent's action.

        Args:
            record: the action.
            was_taken: the step claimed before turned out to hold somebody else's files.
        """

    def judged(self, record: Record) -> int:
        """The step of the action that a Conductor's action judges."""

    def last(self, op_name: str, task_id: str) -> int:
        """The highest step of a task so far, -1 for none."""

    def count(self, record: Record, last: int) -> None:
        """Count the step of an action that is on disk already; ``last`` is that before it."""


class StepsAsGiven:
    """Steps as the spans have them; where they have none, counted from 1 in this process."""

    def __init__(self) -> None:
        self._last: Recent[_Task, int] = Recent(_MAX_TASKS)
        self._lock = threading.Lock()
        after_fork_in_child(self)

    def reserve(self, op_name: str, task_id: str) -> int | None:
        return None

    def learn(self, span_id: int, step: int) -> None:
        pass

    def keep(self, op_name: str, task_id: str, run: int, steps: int) -> int | None:
        return None

    def claim(self, record: Record, *, was_taken: bool = False) -> int:
        task = (record.op_name, record.task_id)
        with self._lock:
            last = self._last.get(task) or 0
            step = last + 1 if was_taken or record.step is None else record.step
            self._last.put(task, max(step, last))
            return step

    def last(self, op_name: str, task_id: str) -> int:
        return -1

    def count(self, record: Record, last: int) -> None:
        pass

    def judged(self, record: Record) -> int:
        if record.step is not None:
            return record.step
        return self._last.get((record.op_name, record.task_id)) or 0

    def after_fork(self) -> None:
        self._lock = threading.Lock()


class StepsOnDisk:
    """Steps that nobody else has, counted across processes and runs."""

    def __init__(self, store: Store, layout: Layout) -> None:
        self._store = store
        self._layout = layout
        # What the parent of a forked child keeps free is the parent's.
        self._reserved: Recent[tuple[_Task, int], bool] = Recent(_MAX_TASKS, forget_in_child=True)
        self._moved: Recent[tuple[_Task, int, int], int] = Recent(_MAX_CLAIMS)
        self._by_span: Recent[int, int] = Recent(_MAX_CLAIMS)
        self._opened: Recent[_Task, bool] = Recent(_MAX_TASKS)
        self._lock = threading.Lock()
        after_fork_in_child(self)

    def reserve(self, op_name: str, task_id: str) -> int | None:
        task = (op_name, task_id)
        with self._lock:
            step = self._advance(task, None, _ANY_RUN)
            self._reserved.put((task, step), True)
        return step

    def learn(self, span_id: int, step: int) -> None:
        self._by_span.put(span_id, step)

    def keep(self, op_name: str, task_id: str, run: int, steps: int) -> int | None:
        with self._lock:
            return self._advance((op_name, task_id), None, run, kept=steps) - steps

    def claim(self, record: Record, *, was_taken: bool = False) -> int:
        with self._lock:
            if not was_taken and record.span_id and (judged := self._by_span.get(record.span_id)) is not None:
                return judged  # its judgement came before it, and had a step claimed for it
            return self._claim(record, was_taken)

    def last(self, op_name: str, task_id: str) -> int:
        task = (op_name, task_id)
        with self._lock:
            number = self._counter(task).number
            return self._last_uncounted(task) if number is None else number

    def count(self, record: Record, last: int) -> None:
        with self._lock:
            run = _ANY_RUN if record.is_root else record.trace_id
            self._counter((record.op_name, record.task_id)).advance(record.step, last, run=run)

    def judged(self, record: Record) -> int:
        task = (record.op_name, record.task_id)
        with self._lock:
            if record.judges:
                known = self._by_span.get(record.judges)
                if known is None:
                    known = self._claim(record._replace(span_id=record.judges), was_taken=False)
                return known
            if record.step is None:
                counter = self._counter(task)
                number = counter.number
                return max(self._last_uncounted(task) if number is None else number, 0)
            moved = self._moved.get((task, record.trace_id, record.step))
            if moved is None and record.is_root:
                moved = self._moved.get((task, _ANY_RUN, record.step))
            return record.step if moved is None else moved

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def _claim(self, record: Record, was_taken: bool) -> int:
        task = (record.op_name, record.task_id)
        run = _ANY_RUN if record.is_root else record.trace_id
        step = wanted = record.step
        if was_taken or wanted is None or not self._take_reserved(task, wanted):
            step = self._advance(task, wanted, run, self._last_on_disk(task) if was_taken else None)
        assert step is not None
        if record.span_id:
            self._by_span.put(record.span_id, step)
        if step != wanted and wanted is not None:
            self._moved.put((task, record.trace_id, wanted), step)
            self._moved.put((task, run, wanted), step)
        elif self._moved and wanted is not None:
            self._moved.drop((task, record.trace_id, wanted))
            self._moved.drop((task, run, wanted))
        return step

    def _advance(
        self, task: _Task, wanted: int | None, run: int, least: int | None = None, *, kept: int = 0
    ) -> int:
        counter = self._counter(task)
        taken = counter.advance(wanted, least, run=run, kept=kept)
        while taken is None:
            # Not while the file is locked, as it may take a while in a large folder.
            taken = counter.advance(wanted, self._last_uncounted(task), run=run, kept=kept)
        return taken

    def _take_reserved(self, task: _Task, step: int) -> bool:
        if not self._reserved or not self._reserved.get((task, step)):
            return False
        self._reserved.drop((task, step))
        return True

    def _counter(self, task: _Task) -> Counter:
        key = (self._store.root, task)
        counter = _counters.get(key)
        # What another exporter had open, or what was removed since, may count what is gone.
        if counter is None or counter.is_gone or not self._opened.get(task):
            counter = _counters.put(key, self._open_counter(task))
            self._opened.put(task, True)
        return counter

    def _open_counter(self, task: _Task) -> Counter:
        op_name, task_id = task
        counters = self._counters_folder(op_name)
        with self._store.locked((PRIVATE,), "lock"):
            if self._store.make_folder(self._layout.folder(op_name)):
                # Nothing is there yet, whatever was counted before the records were removed.
                self._store.empty_folder(counters)
                self._store.publish([(counters, _COUNTED, b"")])
            return self._store.open_counter(counters, safe_name(task_id))

    def _counters_folder(self, op_name: str) -> Folder:
        return (PRIVATE, "steps", *self._layout.folder(op_name))

    def _last_uncounted(self, task: _Task) -> int:
        """The last step of a task that has no number yet.

        Looking through a folder is slow where it is large, so it is done only where
        records may be older than the counters, or where a first step is found that
        nobody counted.
        """
        is_counted = self._store.exists(self._counters_folder(task[0]), _COUNTED)
        return -1 if is_counted and not self._has_first_step(task) else self._last_on_disk(task)

    def _has_first_step(self, task: _Task) -> bool:
        parts = {PROMPT: "x", ERROR_LOG: "x"}
        return any(
            self._store.exists(file.folder, file.name)
            for action in ActionType
            for file in self._layout.files(Record(*task, action.name, parts=parts), 1)
        )

    def _last_on_disk(self, task: _Task) -> int:
        """The highest step that has files, -1 for none."""
        op_name, task_id = task
        try:
            entries = self._store.entries(self._layout.folder(op_name))
        except FileNotFoundError:
            return -1
        return max(self._layout.steps_among(entries, op_name, task_id), default=-1)
