"""The exporter: takes finished spans, leaves files."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_kernel_trace.actions import Agent, agent_of
from otel_kernel_trace.busy import busy
from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.layout import Layout
from otel_kernel_trace.losses import Counts, Losses, RefusedError
from otel_kernel_trace.recent import Recent
from otel_kernel_trace.record import Record, read_record
from otel_kernel_trace.scratch import Scratch
from otel_kernel_trace.settings import OnExisting, read_settings
from otel_kernel_trace.steps import StepNumbers, StepsAsGiven, StepsOnDisk
from otel_kernel_trace.store import NewFile, Store

_NO_ACTION, _LOST = -1, -2
"""Instead of a step, for a span that is no action or none of ours, and for one that could not be written."""

_MAX_OWN_NAMES = 4096
_MAX_ATTEMPTS = 1000
"""Names tried for a record before its task is taken for hopeless."""


class KernelTraceSpanExporter(SpanExporter):
    """Writes the actions among finished spans as a tree of text files.

    A span is an action when it has an action type or a part among its attributes
    (see :mod:`otel_kernel_trace.attributes`); other spans are left alone. When
    :meth:`export` returns, the files are there, each of them whole.

    Thread-safe, and usable in a forked child. :meth:`export` never raises. Spans that a
    signal handler or the garbage collector ends while their thread is in here are written
    before it leaves.

    Args:
        log_dir: root of the tree, ``~`` expanded; made when the first record comes.
            Environment: ``OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR``; default
            ``kernel_trace_logs`` in the working folder.
        layout: ``design``, ``aikg`` or ``akg_agents``, or a
            :class:`~otel_kernel_trace.layout.Layout`. Environment:
            ``OTEL_EXPORTER_KERNEL_TRACE_LAYOUT``; default ``design``.
        on_existing: what happens when a task has records on disk. ``continue`` goes on
            after its last step; ``overwrite`` replaces files of the same name and keeps
            others; ``fail`` refuses records of which a file is there. Environment:
            ``OTEL_EXPORTER_KERNEL_TRACE_ON_EXISTING``; default ``continue``.
        file_mode: permission bits of files, as ``0o600`` or ``"600"``; folders get the
            matching ones. Environment: ``OTEL_EXPORTER_KERNEL_TRACE_FILE_MODE``, in octal;
            default: left to the umask.

    Raises:
        ValueError, TypeError: an argument that can't be used. A bad value in the
            environment is logged instead, and the default taken.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        *,
        layout: str | Layout | None = None,
        on_existing: OnExisting | None = None,
        file_mode: int | str | None = None,
    ) -> None:
        settings = read_settings(log_dir, layout, on_existing, file_mode)
        self.log_dir = settings.log_dir
        """Root of the tree: an absolute path without links."""
        self._layout = settings.layout
        self._on_existing = settings.on_existing
        self._store = Store(settings.log_dir, settings.file_mode)
        self._steps: StepNumbers = (
            StepsOnDisk(self._store, settings.layout)
            if settings.on_existing == "continue"
            else StepsAsGiven()
        )
        self._own_names: Recent[tuple[int, tuple[str, ...], str], bool] = Recent(_MAX_OWN_NAMES)
        self._losses = Losses(settings.log_dir)
        self._scratch: Scratch | None = None
        self._lock = threading.Lock()
        self._is_shut_down = False
        after_fork_in_child(self)

    @property
    def counts(self) -> Counts:
        """Records received, written and failed so far, by this exporter in this process."""
        with busy:
            return self._losses.counts

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write the actions among ``spans``.

        Returns:
            FAILURE where a record could not be written whole, or after shutdown. SUCCESS
            where this thread is in here already (called from a signal handler or the
            garbage collector): the files are there when the outer call returns.
        """
        if busy.puts_off(lambda: self.export(spans)):
            return SpanExportResult.SUCCESS
        with busy:
            steps = [self._write(span) for span in spans]
        if self._is_shut_down or _LOST in steps:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def write(self, span: ReadableSpan) -> int | None:
        """Write one action.

        Returns:
            The step that it has on disk; None where it could not be written whole, or is none.
        """
        with busy:
            step = self._write(span)
        return None if step in (_LOST, _NO_ACTION) else step

    def reserve_step(self, op_name: str, task_id: str) -> int | None:
        """The step that the next action of a task will have on disk, kept for it.

        Returns:
            None where steps on disk are what the spans say (``overwrite`` and ``fail``).

        Raises:
            OSError: the tree can't be read or written.
        """
        with busy:
            return self._steps.reserve(op_name, task_id)

    def read_part(self, record: Record, step: int, part: str) -> str | None:
        """A part of a record that was written at ``step``, None where no file holds it."""
        with busy:
            for file in self._layout.files(record, step):
                if file.part == part:
                    with contextlib.suppress(OSError):
                        return self._store.read(file.folder, file.name).decode("utf-8", "surrogateescape")
        return None

    def scratch(self) -> Scratch:
        """A file of this process beside the tree, for texts that a program may ask for again.

        Raises:
            OSError: the tree can't be written.
        """
        with busy, self._lock:
            if self._scratch is None or not self._scratch.is_writable:
                self._scratch = self._store.open_scratch()
            return self._scratch

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """True: nothing waits to be written."""
        return True

    def shutdown(self) -> None:
        """Take no more records."""
        self._is_shut_down = True

    def after_fork(self) -> None:
        """For a forked child; not for users."""
        self._lock = threading.Lock()

    def _write(self, span: ReadableSpan) -> int:
        """The step of the span's record on disk, or why it has none."""
        record = None
        try:
            record = read_record(span)
            if record is None or record.written_in == self.log_dir:
                return _NO_ACTION
            if self._is_shut_down:
                raise RefusedError("the exporter has been shut down")
            step = self._publish(record)
            self._losses.count_written()
        except Exception as error:  # noqa: BLE001 - the program that we watch goes on
            self._losses.count_failed(_described(record), error)
            return _LOST
        return step

    def _publish(self, record: Record) -> int:
        is_conductor = agent_of(record.action_type) is Agent.CONDUCTOR
        step = self._steps.judged(record) if is_conductor else self._steps.claim(record)
        for attempt in range(1, _MAX_ATTEMPTS):
            files = [
                # What UTF-8 can't hold, lone surrogates, is written as in a Python literal.
                (folder, name, text.encode("utf-8", "backslashreplace"))
                for _, folder, name, text in self._layout.files(record, step, attempt if is_conductor else 1)
            ]
            if self._on_existing == "overwrite":
                if self._overwrites(record, files):
                    return step
            elif self._store.publish(files):
                return step
            elif self._on_existing == "fail":
                raise RefusedError(f"step {step} of the task has files already, and on_existing is 'fail'")
            if not is_conductor:
                step = self._steps.claim(record, was_taken=True)
        raise RefusedError(f"no free name after {_MAX_ATTEMPTS} attempts")

    def _overwrites(self, record: Record, files: Sequence[NewFile]) -> bool:
        """Replace what an earlier run left; False where a file is this run's own."""
        names = [(record.trace_id, folder, name) for folder, name, _ in files]
        if any(self._own_names.get(name) for name in names):
            return False
        self._store.publish(files, replace=True)
        for name in names:
            self._own_names.put(name, True)
        return True


def _described(record: Record | None) -> str:
    if record is None:
        return "an action whose span could not be read"
    action, op, task = (name[:100] for name in (record.action_type, record.op_name, record.task_id))
    return f"the {action!r} action of op {op!r}, task {task!r}"
