"""The span that work goes on under, and the task that it is of."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator
from contextvars import Token
from typing import NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context, attach, create_key, detach, get_value, set_value
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from otel_kernel_trace import attributes
from otel_kernel_trace.levels import Levels, read_levels
from otel_kernel_trace.live import remember_missing
from otel_kernel_trace.version import __version__
from otel_kernel_trace.within import Within, entered

_TASK = create_key("kernel_trace.task")
_HERE = os.path.join(os.path.dirname(__file__), "")


class CurrentTask(NamedTuple):
    """The task that work is of, and what makes its spans."""

    op_name: str
    task_id: str
    tracer: Tracer
    levels: Levels = Levels()


def current_task() -> CurrentTask | None:
    """The task of the work that goes on here, by the context; else by the attributes of the current span.

    None where the current span is of no task.
    """
    task = get_value(_TASK)
    if isinstance(task, CurrentTask):
        return task
    given = getattr(trace.get_current_span(), "attributes", None) or {}
    op_name, task_id = given.get(attributes.OP_NAME), given.get(attributes.TASK_ID)
    if op_name is None or task_id is None:
        return None
    tracer = trace.get_tracer("otel_kernel_trace", __version__)
    return CurrentTask(attributes.text(op_name), attributes.text(task_id), tracer, read_levels(None))


def in_task(task: CurrentTask, around: Context, action: Within | None = None) -> Context:
    """The context of work of a task, and of an action where it begins one."""
    context = set_value(_TASK, task, around)
    return context if action is None else entered(action, context)


@contextlib.contextmanager
def work_under(
    span: Span,
    task: CurrentTask,
    error_log: str | None = None,
    before_end: Callable[[Span], int | None] | None = None,
    action: Within | None = None,
) -> Iterator[None]:
    """Have a span be the current one as long as work goes on, and end it then.

    An exception makes the span an error, is noted there, and passes on.

    Args:
        span: just started.
        task: that the work is of.
        error_log: name of the attribute that has the traceback of an exception, where it is not given.
        before_end: called with the span right before it ends; must not raise. What it returns is when
            the work ended, in nanoseconds since 1970; None for now.
        action: where the span is one.
    """
    token: Token[Context] | None = attach(in_task(task, trace.set_span_in_context(span), action))
    try:
        yield
    except GeneratorExit:
        if trace.get_current_span() is not span:
            # The garbage collector closes what was abandoned, in whatever context it runs; were
            # that in the middle of setting a context variable, CPython would crash.
            token = None
        raise
    except BaseException as error:
        # Cancellation and Ctrl-C are exceptions of the pipeline too.
        note_exception(span, error, error_log)
        raise
    finally:
        if token is not None:
            detach(token)
        span.end(None if before_end is None else before_end(span))


def note_exception(span: Span, error: BaseException, error_log: str | None = None) -> None:
    """Have a span tell of an exception that ended its work; ``error_log`` as of :func:`work_under`."""
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {attributes.text(error)}"))
    with contextlib.suppress(Exception):  # the exception is asked for its text
        stacktrace = _traceback_of(error)
        if error_log is not None:
            # Whole, whatever limits events have; backends are told the same.
            remember_missing(span, error_log, stacktrace)
        span.record_exception(error, {"exception.stacktrace": stacktrace})


def _traceback_of(error: BaseException) -> str:
    """A traceback without the frames of this package that stand before those of the work."""
    begin = error.__traceback__
    while (
        begin is not None
        and begin.tb_next is not None
        and begin.tb_frame.f_code.co_filename.startswith(_HERE)
    ):
        begin = begin.tb_next
    return "".join(traceback.format_exception(type(error), error, begin))
