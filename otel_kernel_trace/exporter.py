"""The exporter: takes finished spans, leaves files."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.actions import Agent, agent_of
from otel_kernel_trace.attributes import (
    DIAGNOSTIC,
    ERROR_LOG,
    LOG_DIR,
    OP_NAME,
    PART_PREFIX,
    VERIFY_RESULT,
)
from otel_kernel_trace.busy import busy
from otel_kernel_trace.findings import findings_in
from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.layout import Layout
from otel_kernel_trace.leveled import action_at_level, note_at_level, without_messages
from otel_kernel_trace.levels import Level
from otel_kernel_trace.live import Live, known
from otel_kernel_trace.losses import Counts, Losses, RefusedError
from otel_kernel_trace.metrics import ActionMetrics
from otel_kernel_trace.modelcalls import is_model_call
from otel_kernel_trace.record import Record, known_attributes, read_record, with_attributes
from otel_kernel_trace.recorder import Recorder
from otel_kernel_trace.reference import Begun, Written
from otel_kernel_trace.scratch import Scratch, temporary_scratch
from otel_kernel_trace.settings import OnExisting, read_settings
from otel_kernel_trace.store import Store
from otel_kernel_trace.written import is_processors, remember, written_of

if TYPE_CHECKING:
    from otel_kernel_trace.redaction.guard import Guard, Redactions
    from otel_kernel_trace.redaction.redactor import Redactor

_logger = logging.getLogger("otel_kernel_trace")

_NO_ACTION, _LOST = -1, -2
"""Instead of a step, for a span that is no action or none of ours, and for one that could not be written."""


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
        level: how much is written of what, as ``info,verifier=debug,designer=off``; see
            :mod:`otel_kernel_trace.levels`. Environment: ``KERNEL_TRACE_LEVEL``; default
            ``info``, which is all of the tree.
        redact: whether secrets are taken out of all texts before they are written (see
            :class:`~otel_kernel_trace.redaction.Redactor`); a Redactor for rules of your own.
            Environment: ``OTEL_EXPORTER_KERNEL_TRACE_REDACT``, ``true``, kinds of secrets with
            commas between, or a file of rules (``.toml``, ``.json``); one that can't be used is
            taken for ``true``. Default: as it is given, all is written.
        audit_dir: folder, outside of the tree, that keeps the texts with secrets as they were:
            JSON lines, files of mode 0600. Environment: ``OTEL_EXPORTER_KERNEL_TRACE_AUDIT_DIR``;
            default: nowhere.

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
        level: str | None = None,
        redact: bool | Redactor | None = None,
        audit_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        settings = read_settings(log_dir, layout, on_existing, file_mode, level, redact, audit_dir)
        self.log_dir = settings.log_dir
        """Root of the tree: an absolute path without links."""
        self._layout = settings.layout
        self._levels = settings.levels
        self._store = Store(settings.log_dir, settings.file_mode)
        self._recorder = Recorder(self._store, settings.layout, settings.on_existing)
        self._losses = Losses(settings.log_dir)
        self._metrics = ActionMetrics()
        self.guard: Guard | None = None
        """What takes secrets out, for what goes with the exporter: a processor, a Trace."""
        if settings.redactor is not None:
            from otel_kernel_trace.redaction.audit import Audit
            from otel_kernel_trace.redaction.guard import Guard

            audit = Audit(settings.audit_dir) if settings.audit_dir is not None else None
            self.guard = Guard(settings.redactor, audit, self._losses.report, self._metrics.count_secrets)
        elif settings.audit_dir is not None:
            _logger.warning("nothing goes to the audit in %s: redact is off", settings.audit_dir)
        self._scratch: Scratch | None = None
        self._lock = threading.Lock()
        self._is_shut_down = False
        after_fork_in_child(self)

    @property
    def counts(self) -> Counts:
        """Records received, written and failed so far, by this exporter in this process."""
        with busy:
            return self._losses.counts

    @property
    def redactions(self) -> Redactions:
        """What was taken out of texts so far, by this exporter in this process."""
        if self.guard is None:
            from otel_kernel_trace.redaction.guard import Redactions

            return Redactions({}, 0, 0, 0)
        with busy:
            return self.guard.figures

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
            steps = [self._write(span, is_shown=True) for span in spans]
        if self._is_shut_down or _LOST in steps:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def begin(self, span: ReadableSpan, live: Live) -> Begun | None:
        """Write what an action has when it begins; what can't be written then comes with its end.

        Args:
            span: just started.
            live: what is known of it; has :attr:`log_dir` in its ``begun`` afterwards.

        Returns:
            What is on disk, None where that is nothing.
        """
        begun = record = None
        if self.log_dir in live.begun:
            return None  # by another processor for this tree
        with busy:
            try:
                clean, given = (
                    self.guard.cleaned(span, has_begun=True) if self.guard else (span, known_attributes(span))
                )
                record = read_record(clean, given)
                if self._has(record):
                    return None  # by a Trace
                live.begun[self.log_dir] = None
                if record is None or self._is_shut_down:
                    return None
                written = action_at_level(record, self._levels)
                if written is not None:
                    live.begun[self.log_dir] = begun = self._recorder.begin(written)
                    self._recorder.tell_begun(without_messages(clean, written.attributes), written, begun)
                else:
                    live.begun[self.log_dir] = begun = self._pass_over(record)
            except Exception as error:  # noqa: BLE001 - the program that we watch goes on
                self._losses.report(f"the beginning of {_described(record)}", error)
        return begun

    def write(self, span: ReadableSpan, begun: Begun | None = None) -> int | None:
        """Write one action, even where its span says that this tree has it.

        Args:
            span: the action.
            begun: what another process has put on disk of it.

        Returns:
            The step that it has on disk; None where it could not be written whole, or is none.
        """
        with busy:
            step = self._write(span, begun=begun)
        return None if step in (_LOST, _NO_ACTION) else step

    def reserve_step(self, op_name: str, task_id: str) -> int | None:
        """The step that the next action of a task will have on disk, kept for it.

        Returns:
            None where steps on disk are what the spans say (``overwrite`` and ``fail``).

        Raises:
            OSError: the tree can't be read or written.
        """
        with busy:
            return self._recorder.steps.reserve(self._name(op_name), self._name(task_id))

    def learn(self, steps: Mapping[int, int]) -> None:
        """Take note of where actions went that another process wrote: step by span id."""
        with busy:
            for span_id, step in steps.items():
                self._recorder.steps.learn(span_id, step)

    def import_beside(self, paths: Collection[str]) -> None:
        """For an import: of files at these paths, below :attr:`log_dir`, the index does not tell."""
        with busy:
            self._recorder.import_beside(paths)

    def keep_steps(self, op_name: str, task_id: str, run: int, steps: int) -> int | None:
        """Keep steps of a task for another process of the run (a trace id).

        Returns:
            The step before the first of them, None where steps on disk are what the spans say.

        Raises:
            OSError: the tree can't be read or written.
        """
        if self._levels.highest is Level.OFF:
            return None
        with busy:
            return self._recorder.steps.keep(self._name(op_name), self._name(task_id), run, steps)

    def read_part(self, record: Record, step: int, part: str) -> str | None:
        """A part of a record that was written at ``step``, None where no file holds it."""
        attribute = PART_PREFIX + part
        with busy:
            for file in self._layout.files(record, step):
                if file.attribute == attribute:
                    with contextlib.suppress(OSError):
                        return self._store.read(file.folder, file.name).decode("utf-8", "surrogateescape")
        return None

    def scratch(self) -> Scratch:
        """A file of this process beside the tree, for texts that a program may ask for again.

        Where nothing at all is to be written there, it is one of the system's temporary files.

        Raises:
            OSError: the tree can't be written.
        """
        with busy, self._lock:
            if self._scratch is None or not self._scratch.is_writable:
                is_off = self._levels.highest is Level.OFF
                self._scratch = temporary_scratch() if is_off else self._store.open_scratch()
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

    def _write(self, span: ReadableSpan, *, is_shown: bool = False, begun: Begun | None = None) -> int:
        """The step of the span's record on disk, or why it has none."""
        record = None
        try:
            if is_shown and is_processors(span, self.log_dir):
                return _NO_ACTION
            clean, given = self.guard.cleaned(span) if self.guard else (span, known_attributes(span))
            record = read_record(clean, given)
            if record is None:
                self._note(span, clean, given.attributes)
                return _NO_ACTION
            if is_shown and self._has(record):
                return _NO_ACTION
            if self._is_shut_down:
                raise RefusedError("the exporter has been shut down")
            live = known(record.trace_id, record.span_id)
            if live:
                begun = live.begun.get(self.log_dir)
            at_its_level = action_at_level(record, self._levels)
            if at_its_level is None:
                self._leave_out(span, record, begun)
                return _NO_ACTION
            told, at_its_level = _with_findings(clean, at_its_level)
            told = without_messages(told, at_its_level.attributes)
            written = self._recorder.finish(told, at_its_level, begun)
        except Exception as error:  # noqa: BLE001 - the program that we watch goes on
            self._losses.count_failed(_described(record), error)
            self._measure(span, record, written=False)
            return _LOST
        self._losses.count_written()
        self._measure(span, record, written=True)
        if record.incomplete:
            self._losses.warn(f"{_described(record)} is incomplete: {record.incomplete[:1000]!r}")
        remember(span, self.log_dir, self._shown(written))
        return written.step

    def _leave_out(self, span: ReadableSpan, record: Record, begun: Begun | None) -> None:
        """Count the step of an action that is not written, and measure it."""
        if not written_of(span) and self._levels.of_action(record.action_type) is not Level.OFF:
            self._metrics.measure(span, record)
        if begun is None:
            try:
                self._pass_over(record)
            except Exception as error:  # noqa: BLE001 - as above; and no record is lost
                self._losses.report(f"the step of {_described(record)}", error)
        remember(span, self.log_dir, None)

    def _pass_over(self, record: Record) -> Begun | None:
        """Claim the step of an action that is not written, so that others have the steps of the pipeline."""
        if self._levels.highest is Level.OFF or agent_of(record.action_type) is Agent.CONDUCTOR:
            return None
        return Begun(self._recorder.steps.claim(record), 1)

    def _has(self, record: Record | None) -> bool:
        """Whether a record says that it is in this tree already."""
        return record is not None and record.written_in in (self.log_dir, self._name(self.log_dir))

    def _name(self, name: str) -> str:
        """A name as it is on disk."""
        return self.guard.name(name) if self.guard else name

    def _shown(self, written: Written) -> Written:
        """What other exporters are told of the tree."""
        return written._replace(identity={**written.identity, LOG_DIR: self._name(self.log_dir)})

    def _measure(self, span: ReadableSpan, record: Record | None, *, written: bool) -> None:
        self._metrics.count_record(written=written)
        if record is not None and not written_of(span):  # else for another tree
            self._metrics.measure(span, record)

    def _note(self, span: ReadableSpan, clean: ReadableSpan, given: Mapping[str, AttributeValue]) -> None:
        """A line in the index for a task, a stage or a model call.

        Args:
            span: as it ended.
            clean: the span without secrets.
            given: its attributes before the SDK's limits.
        """
        if self._is_shut_down or not (OP_NAME in given or is_model_call(given)):
            return
        written = note_at_level(clean, given, self._levels)
        if written is not None:
            try:
                self._recorder.note(without_messages(clean, written), written)
            except Exception as error:  # noqa: BLE001 - as above; and no record is lost
                self._losses.report(f"the line of span {clean.name[:100]!r} in the index", error)
        if not written_of(span):  # else for another tree
            self._metrics.measure_stage(clean, given)
        remember(span, self.log_dir, None)


def _with_findings(span: ReadableSpan, record: Record) -> tuple[ReadableSpan, Record]:
    """A span and its record with what the texts tell, where whoever made the span has not said it."""
    error_log = record.parts.get(ERROR_LOG, "")
    if record.is_pending or not (error_log or VERIFY_RESULT in record.attributes):
        return span, record
    found = findings_in({**record.attributes, PART_PREFIX + ERROR_LOG: error_log})
    if found is None:
        return span, record
    moment = span.end_time or span.start_time or 0
    events = [Event(DIAGNOSTIC, event, moment) for event in found.events]
    given = {**record.attributes, **found.attributes}
    told = with_attributes(span, given, [*span.events, *events], is_all=True)
    return told, record._replace(attributes=given)


def _described(record: Record | None) -> str:
    if record is None:
        return "an action whose span could not be read"
    action, op, task = (name[:100] for name in (record.action_type, record.op_name, record.task_id))
    return f"the {action!r} action of op {op!r}, task {task!r}"
