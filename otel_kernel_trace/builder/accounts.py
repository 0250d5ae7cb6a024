"""Which span something belongs to that is said without one, and what is kept until that span ends."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from opentelemetry import trace
from opentelemetry.trace import Span

from otel_kernel_trace.busy import busy
from otel_kernel_trace.ending import before_end
from otel_kernel_trace.forking import after_fork_in_child

Account = TypeVar("Account")


class Accounts(Generic[Account]):
    """One account for each span, written onto the span before it ends. Thread-safe, and forks.

    A builder calls back from threads of its own, which have no OpenTelemetry context. The
    span is, in this order: that of the innermost :meth:`under`; the current one of the
    calling thread; the one that was current there last, or where this was made, while it is
    recorded. What finds none of these waits for the first that comes.

    Args:
        make: a new account, for the span if there is one.
        write: puts an account onto its span; called with no lock held.
    """

    def __init__(
        self, make: Callable[[Span | None], Account], write: Callable[[Span, Account], None]
    ) -> None:
        self._make = make
        self._write = write
        self._under: list[Span] = []
        self._accounts: dict[int, tuple[weakref.ref[Span], Account]] = {}
        self._waiting: Account | None = None
        self._last: weakref.ref[Span] | None = None
        self.lock = threading.Lock()
        """To be held, within ``busy``, around :meth:`here` and every use of an account."""
        self._remember(trace.get_current_span())
        after_fork_in_child(self)

    def here(self) -> tuple[Span | None, Account] | None:
        """The span that what is said now belongs to, None where there is none yet, and its account.

        None where it is one that is not recorded: a sampler or a level left it out.
        """
        span = self._span()
        if span is None:
            if self._waiting is None:
                self._waiting = self._make(None)
            return None, self._waiting
        if not span.is_recording():
            return None
        known = self._accounts.get(id(span))
        if known is not None and known[0]() is span:
            return span, known[1]
        account, self._waiting = self._waiting, None
        if account is None:
            account = self._make(span)
        self._forget_ended()
        self._accounts[id(span)] = (weakref.ref(span), account)
        before_end(span, self._finish)
        return span, account

    @contextlib.contextmanager
    def under(self, span: Span) -> Iterator[None]:
        """What is said in this block, in whatever thread, belongs to ``span``; written when it is left."""
        with busy, self.lock:
            self._under.append(span)
        try:
            yield
        finally:
            with busy, self.lock:
                # The last of them: blocks of several threads may overlap.
                at = max((at for at, there in enumerate(self._under) if there is span), default=None)
                if at is not None:
                    del self._under[at]
            self._write_of(span)

    def flush(self) -> None:
        """Put onto their spans what is known so far."""
        with busy, self.lock:
            spans = [span for reference, _ in self._accounts.values() if (span := reference()) is not None]
        for span in spans:
            self._write_of(span)

    def after_fork(self) -> None:
        """For a forked child: what was said before is the parent's to write."""
        self.lock = threading.Lock()
        self._accounts = {}
        self._waiting = None

    def _span(self) -> Span | None:
        if self._under and self._under[-1].is_recording():
            return self._under[-1]
        current = trace.get_current_span()
        if current.is_recording():
            self._remember(current)
            return current
        if isinstance(current, trace.NonRecordingSpan):
            context = current.get_span_context()
            if context.is_valid and not context.is_remote:
                return current
        last = self._last() if self._last is not None else None
        return last if last is not None and last.is_recording() else None

    def _remember(self, span: Span) -> None:
        if span.is_recording() and (self._last is None or self._last() is not span):
            self._last = weakref.ref(span)

    def _finish(self, span: Span) -> None:
        if busy.is_busy:
            return  # the garbage collector ends a span while we may hold the lock
        self._write_of(span)
        with busy, self.lock:
            self._accounts.pop(id(span), None)

    def _write_of(self, span: Span) -> None:
        with busy, self.lock:
            known = self._accounts.get(id(span))
        if known is not None and known[0]() is span and span.is_recording():
            self._write(span, known[1])

    def _forget_ended(self) -> None:
        for key, (reference, _) in list(self._accounts.items()):
            span = reference()
            if span is None or not span.is_recording():
                del self._accounts[key]
