"""The root span of a task, under which its actions stand."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Mapping
from weakref import WeakSet

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.live import set_attributes, start_span

SPAN_NAME = "kernel_task"

_open: WeakSet[TaskSpan] = WeakSet()


class TaskSpan:
    """Starts with the task's first action; ends by :meth:`end`, with its owner, or at exit.

    Thread-safe.
    """

    def __init__(self, attributes: Mapping[str, AttributeValue], around: Context | None = None) -> None:
        self._attributes = dict(attributes)
        # In a task that another process began, its span there stands for the root.
        self._span = None if around is None else trace.get_current_span(around)
        self._is_parents = around is not None
        self.around = around
        """Where the task came from another process: its span there, and the baggage."""
        self._outside = trace.INVALID_SPAN_CONTEXT
        self._lock = threading.RLock()
        after_fork_in_child(self)

    def context(self, tracer: trace.Tracer) -> Context:
        """Where an action begins: under the current span if that is of this task, else under the root."""
        with self._lock:
            if self._span is None:
                self._outside = trace.get_current_span().get_span_context()
                self._span = start_span(tracer, SPAN_NAME, None, self._attributes)
                if self._span.is_recording():
                    from otel_kernel_trace.environment import environment  # reading metadata loads much

                    set_attributes(self._span, {**environment(), **self._attributes})
                if not _open:
                    # After the provider was made, and so before its own shutdown at exit.
                    atexit.unregister(_end_all)
                    atexit.register(_end_all)
                _open.add(self)
            span = self._span
        current = trace.get_current_span().get_span_context()
        own = span.get_span_context()
        # What encloses the task is of the same trace too, but it is no place for an action.
        if current.trace_id == own.trace_id and current != self._outside:
            return get_current()
        return trace.set_span_in_context(span, self.around)

    def describe(self, attributes: Mapping[str, AttributeValue]) -> bool:
        """Add attributes to the span, now or when it starts; False where it is another process's."""
        with self._lock:
            if self._is_parents:
                return False
            self._attributes.update(attributes)
            if self._span is not None:
                set_attributes(self._span, attributes)
            return True

    def after_fork(self) -> None:
        self._lock = threading.RLock()
        self._is_parents = self._span is not None

    def end(self) -> None:
        """End the span, if one was started. Later actions stand under it all the same."""
        span = self._span
        if span is not None and span.is_recording() and not self._is_parents:
            with contextlib.suppress(Exception):  # other people's processors run in there
                span.end()

    def __del__(self) -> None:
        self.end()


def _end_all() -> None:
    for task in list(_open):
        task.end()
