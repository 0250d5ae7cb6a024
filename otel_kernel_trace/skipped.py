"""Actions below their level: they are numbered, and have no span unless they fail."""

from __future__ import annotations

import contextlib
import hashlib
import time
from contextvars import Token
from types import TracebackType
from typing import Protocol, TypeVar

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import INVALID_SPAN, INVALID_SPAN_CONTEXT, Span, SpanContext

from otel_kernel_trace.levels import Level
from otel_kernel_trace.within import Within, action_of

_Self = TypeVar("_Self", bound="Skipped")


class SkippedSteps:
    """Steps of actions that were skipped one after the other, before the next that has a span.

    Where they are on disk is found when that one begins: till then nothing is kept for them there.
    """

    __slots__ = ("count", "first", "run")

    def __init__(self, first: int) -> None:
        self.first = first
        self.count = 0
        self.run = 0
        """Id of the trace, once it is known that nobody keeps the steps on disk; else 0."""


class Tracer(Protocol):
    """What a skipped action asks of the tracer that it is of."""

    def skip(self, action: Skipped) -> tuple[SkippedSteps | None, int]:
        """Number an action; gives the steps it is among, and which of them it is, else the step itself."""

    def context_of_skipped(self, action: Within) -> Context:
        """The context of what happens in a skipped action."""

    def tell_of_failure(self, action: Skipped, error: BaseException | None) -> None:
        """Record an action after all, as it has failed. Does not raise."""


class Judged(Protocol):
    """An action that the Conductor may judge, with a span or without."""

    @property
    def step(self) -> int: ...
    @property
    def action_type(self) -> str: ...
    @property
    def span_context(self) -> SpanContext: ...


class Skipped(contextlib.ContextDecorator):
    """The ``with`` block of an action below its level. Costs less than a span that is not recorded."""

    # What most of them have stands here, as one is made for every action.
    span: Span = INVALID_SPAN
    judged: Judged | None = None
    """What a Conductor's action judges."""
    error_log: str | None = None
    began = 0
    """Nanoseconds since the epoch."""
    _steps: SkippedSteps | None = None
    _context: Context | None = None
    _token: Token[Context] | None = None

    def __init__(self, tracer: Tracer, action_type: str, level: Level, judged: Judged | None = None) -> None:
        self._tracer: Tracer | None = tracer
        self.action_type = action_type
        self.level = level
        self._number = 0
        if judged is not None:
            self.judged = judged

    @property
    def step(self) -> int:
        """Number of the action in its task, if nobody else had it on disk when the next one was recorded."""
        if self.judged is not None:
            return self.judged.step
        return self._number if self._steps is None else self._steps.first + self._number

    @property
    def span_context(self) -> SpanContext:
        """What a judgement of the action refers to beside its step."""
        return INVALID_SPAN_CONTEXT if self._steps is None else stand_in(self._steps.run, self.step)

    def _recreate_cm(self: _Self) -> _Self:
        return type(self)(self._own_tracer(), self.action_type, self.level, self.judged)

    def _own_tracer(self) -> Tracer:
        if self._tracer is None:
            raise RuntimeError("an action begins once; ask the tracer for another")
        return self._tracer

    def __enter__(self: _Self) -> _Self:
        tracer = self._own_tracer()
        if self.judged is None:
            self._steps, self._number = tracer.skip(self)
        self._context = tracer.context_of_skipped(action_of(self.action_type, self.level, has_span=False))
        self._token = attach(self._context)
        if self.level is not Level.OFF:
            self.began = time.time_ns()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        is_abandoned = exc_type is not None and issubclass(exc_type, GeneratorExit)
        # What the garbage collector closes, it closes in whatever context it runs.
        if self._token is not None and (not is_abandoned or get_current() is self._context):
            detach(self._token)
        tracer = self._own_tracer()
        self._context = self._token = self._tracer = None  # the tracer may keep the action
        if self.level is not Level.OFF and not is_abandoned and (error is not None or self.error_log):
            tracer.tell_of_failure(self, error)


def stand_in(run: int, step: int) -> SpanContext:
    """What a judgement refers to where the action has no span.

    Where nobody keeps its step on disk an exporter claims one for it, as for an action whose
    span is still to come.

    Args:
        run: id of the trace; 0 where the step is kept, which says it all.
        step: of the action, in this process.
    """
    if not run:
        return INVALID_SPAN_CONTEXT
    digest = hashlib.blake2b(b"%d %d" % (run, step), digest_size=8).digest()
    return SpanContext(run, int.from_bytes(digest, "big") or 1, False)
