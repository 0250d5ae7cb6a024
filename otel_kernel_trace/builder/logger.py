"""A logger for builders such as TensorRT, whose lines become events and figures of the current span."""

from __future__ import annotations

import contextlib
import logging
import time
from functools import partial
from types import TracebackType
from typing import Final

from opentelemetry.trace import Span

from otel_kernel_trace import attributes
from otel_kernel_trace.builder.accounts import Accounts
from otel_kernel_trace.builder.book import Book, Event, group_of
from otel_kernel_trace.builder.interfaces import construct_interface, with_interface
from otel_kernel_trace.builder.lines import SEVERITIES, BuilderLine, Severity, read_line, severity_named
from otel_kernel_trace.builder.summary import BuilderSummary, Tally
from otel_kernel_trace.busy import busy
from otel_kernel_trace.levels import BUILDER, Level, read_levels
from otel_kernel_trace.live import set_attributes

_DEFAULT_LIMIT: Final = 128
"""Of the SDK, for a span's events.
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/#span-limits"""
_MOST_WARNINGS: Final = 10_000
_WARNINGS: Final = ("WARNING", "ERROR", "INTERNAL_ERROR")
_LOWEST: Final[dict[Level, Severity]] = {
    Level.OFF: "ERROR",
    Level.ERROR: "ERROR",
    Level.WARN: "WARNING",
    Level.INFO: "INFO",
    Level.DEBUG: "VERBOSE",
}
_LONGEST_MESSAGE: Final = 1024
"""Characters of a message on an event; the log has it whole."""


class TracingLogger(logging.Handler):
    """Takes a builder's log: for ``tensorrt.Builder(logger)``, for :mod:`logging`, and for lines of your own.

    >>> with TracingLogger() as logger, tracer.stage("build"):
    ...     builder = tensorrt.Builder(logger)
    ...     logger.info("RoPE configured, context length 2048")

    The lines go to the current span of the thread that says them. Threads of TensorRT's own
    have none; theirs go to the span that was current last where a line was said or the logger
    was made, or where that is not right to ``with logger.under(span)``, which goes before all.
    Lines for which there is no span yet wait for the first. Those under a span that is not
    recorded are in :attr:`summary` alone.

    Of each span's lines it keeps the figures of a :class:`~otel_kernel_trace.builder.BuilderSummary`,
    the whole text (``kernel_trace.builder.log``: the first 8 Mi and the last 24 Mi characters,
    and between them how much was cut), and events ``kernel_trace.builder``. Events are the
    lines that tell something (see :class:`~otel_kernel_trace.builder.BuilderLine`), and others
    at or above ``level``; so many that the span drops none, with room kept for errors,
    warnings, refused fusions, layers, memory, outcomes and decisions each. Figures and text
    are put on the span just before it ends, and by :meth:`flush`. Until then they are in
    memory: SIGKILL takes them.

    Needs no TensorRT. Where a program has imported it, the logger is a ``tensorrt.ILogger``,
    too; import it before making the logger. Thread-safe, usable in a forked child, which
    begins anew. Its methods never raise, whatever they are given: what can't be taken is
    counted in :attr:`lost`.

    Args:
        level: the lowest severity at which any line is an event: ``error``, ``warning``,
            ``info`` or ``verbose``; default: as the level of ``builder`` in ``KERNEL_TRACE_LEVEL``
            has it. Below ``info`` there lines of lower severity are counted and not kept, at
            ``off`` nothing is put on spans.
        max_events: the most events on a span; default: three quarters of the span's limit,
            which is 128 where nobody says otherwise.

    Raises:
        ValueError: ``level`` is no severity, or ``max_events`` is negative.
    """

    def __new__(cls, *args: object, **kwargs: object) -> TracingLogger:
        joined = with_interface(cls, "ILogger")
        made: TracingLogger = super(TracingLogger, joined).__new__(joined)
        return made

    def __init__(self, *, level: str | None = None, max_events: int | None = None) -> None:
        construct_interface(self, "ILogger")
        super().__init__()
        self._level = read_levels(None).of(BUILDER)
        lowest = _LOWEST.get(self._level, "INFO") if level is None else severity_named(level)
        if lowest is None:
            raise ValueError(f"level is 'error', 'warning', 'info' or 'verbose', not {level!r}")
        if max_events is not None and max_events < 0:
            raise ValueError(f"max_events is a number of events, not {max_events!r}")
        self._shown = frozenset(SEVERITIES[: SEVERITIES.index(lowest) + 1])
        self._kept = frozenset(SEVERITIES if self._level >= Level.INFO else self._shown)
        """Severities of lines whose text is kept; others are counted."""
        self._max_events = max_events
        self._tally = Tally()
        self._accounts = Accounts(self._new_book, self._write)
        self._warnings: list[str] = []
        self.lost = 0
        """Lines that could not be taken."""

    def log(self, severity: object, msg: object) -> None:
        """Take a line.

        Args:
            severity: a number from 0 (internal error) to 4 (verbose), an enum's member as of
                ``tensorrt.ILogger.Severity``, a name, or a level of :mod:`logging`.
            msg: the line, as a rule a text.
        """
        try:
            self._take(severity_of(severity), attributes.text(msg))
        except Exception:  # noqa: BLE001 - TensorRT ends the process for an exception here
            self.lost += 1

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record of :mod:`logging`."""
        try:
            self._take(_severity_at(record.levelno), self.format(record))
        except Exception:  # noqa: BLE001 - arguments that do not fit the message, and the like
            self.lost += 1

    def error(self, message: object) -> None:
        """A line of your own; so do the others."""
        self.log("ERROR", message)

    def warning(self, message: object) -> None:
        self.log("WARNING", message)

    def info(self, message: object) -> None:
        self.log("INFO", message)

    def verbose(self, message: object) -> None:
        self.log("VERBOSE", message)

    def under(self, span: Span) -> contextlib.AbstractContextManager[None]:
        """A block in which all lines, of whatever thread, belong to ``span``.

        When it is left, what is known is put on the span.
        """
        return self._accounts.under(span)

    @property
    def summary(self) -> BuilderSummary:
        """What all lines come to that this logger has taken, under whatever span."""
        with busy, self._accounts.lock:
            return self._tally.summary()

    @property
    def fusion_count(self) -> int:
        """Fusions made, of all lines."""
        return self.summary.fusions_made

    @property
    def warnings(self) -> list[str]:
        """Messages of warnings and errors, of all lines; the first 10,000."""
        with busy, self._accounts.lock:
            return list(self._warnings)

    def flush(self) -> None:
        """Put what is known so far on the spans that have not ended."""
        with contextlib.suppress(Exception):
            self._accounts.flush()

    def close(self) -> None:
        """Flush. Lines that come later are taken all the same."""
        self.flush()
        super().close()

    def __enter__(self) -> TracingLogger:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, severity: Severity, message: str) -> None:
        if busy.puts_off(partial(self.log, severity, message)):
            return
        line = read_line(message, severity)
        with busy, self._accounts.lock:
            self._tally.add(line)
            self._remember_warning(line)
            here = None if self._level is Level.OFF else self._accounts.here()
            if here is None:
                return
            span, book = here
            is_kept = severity in self._kept
            book.add(line, is_kept=is_kept)
            is_shown = is_kept and (severity in self._shown or line.kind not in (None, "tactic_timed"))
            shown = is_shown and book.room.takes(group_of(line))
            if shown and span is None:
                book.waiting.append((_event(line), time.time_ns()))
            waiting, book.waiting = (book.waiting, []) if span and book.waiting else ([], book.waiting)
        if span is not None:
            for event, when in waiting:
                span.add_event(attributes.BUILDER, event, when)
            if shown:
                span.add_event(attributes.BUILDER, _event(line))

    def _remember_warning(self, line: BuilderLine) -> None:
        if line.severity in _WARNINGS and len(self._warnings) < _MOST_WARNINGS:
            self._warnings.append(line.message[:_LONGEST_MESSAGE])

    def _new_book(self, span: Span | None) -> Book:
        limits = getattr(span, "_limits", None)  # the SDK says so nowhere else
        limit = getattr(limits, "max_events", None)
        most = (limit if isinstance(limit, int) else _DEFAULT_LIMIT) * 3 // 4
        return Book(most if self._max_events is None else self._max_events)

    def _write(self, span: Span, book: Book) -> None:
        with busy, self._accounts.lock:
            figures, text = book.summary().attributes(), book.log.text()
        set_attributes(span, {**figures, attributes.BUILDER_LOG: text})


def severity_of(value: object) -> Severity:
    """The severity that a number, a name or an enum's member stands for; ``INFO`` for what is none."""
    if isinstance(value, str):
        return severity_named(value) or "INFO"
    if type(value) is not int:
        named = getattr(value, "name", None)
        found = severity_named(named) if isinstance(named, str) else None
        if found is not None:
            return found
        try:
            value = int(getattr(value, "value", value))  # type: ignore[call-overload]  # that is what is tried
        except (TypeError, ValueError, OverflowError):
            return "INFO"
    number = value if isinstance(value, int) else 3
    if 0 <= number < len(SEVERITIES):
        return SEVERITIES[number]
    return _severity_at(number)


def _severity_at(level: int) -> Severity:
    """The severity of a level of :mod:`logging`."""
    if level >= logging.CRITICAL:
        return "INTERNAL_ERROR"
    if level >= logging.ERROR:
        return "ERROR"
    if level >= logging.WARNING:
        return "WARNING"
    return "INFO" if level >= logging.INFO else "VERBOSE"


def _event(line: BuilderLine) -> Event:
    event: Event = {
        attributes.BUILDER_SEVERITY: line.severity,
        attributes.BUILDER_MESSAGE: line.message[:_LONGEST_MESSAGE],
    }
    if line.kind is not None:
        event[attributes.BUILDER_KIND] = line.kind
        for name, value in line.facts.items():
            event[attributes.BUILDER_PREFIX + name] = (
                value[:_LONGEST_MESSAGE] if isinstance(value, str) else value
            )
    return event
