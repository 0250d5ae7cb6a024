"""A task's way into another process or machine: W3C trace context and baggage.

As environment variables they are called ``TRACEPARENT``, ``TRACESTATE`` and ``BAGGAGE``,
as HTTP headers ``traceparent`` and so on.
https://opentelemetry.io/docs/specs/otel/context/env-carriers/
https://www.w3.org/TR/trace-context/ , https://www.w3.org/TR/baggage/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from opentelemetry import baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from otel_kernel_trace.attributes import OP_NAME, STEP, TASK_ID

_FIELDS = ("traceparent", "tracestate", "baggage")
_STEPS: Final = "kernel_trace.steps"

_UNSAFE = re.compile(rb"[^A-Za-z0-9_.-]")
_ESCAPE = re.compile(rb"~([0-9A-F]{2})")

_trace_context = TraceContextTextMapPropagator()
_baggage = W3CBaggagePropagator()


class Carried(NamedTuple):
    """A task as it goes from one process to another."""

    op_name: str
    task_id: str
    last_step: int
    """The last step that is not for the process it goes to."""
    steps: int | None
    """How many are kept for it, None where nobody said."""


class Arrived(NamedTuple):
    """What came from another process."""

    task: Carried
    context: Context
    """With the span under which its actions stand, and the baggage."""


def headers_of(task: Carried, context: Context, more: Context | None = None) -> dict[str, str]:
    """The headers that carry a task.

    Args:
        task: the task.
        context: with the span that the task's actions are to stand under, and baggage.
        more: with baggage that goes on, too.

    Raises:
        ValueError: the task's names are too long to be carried.
    """
    # Ours first: what finds no room in the header is left out from the end.
    own = {OP_NAME: _escaped(task.op_name), TASK_ID: _escaped(task.task_id)}
    own |= {STEP: str(task.last_step), _STEPS: str(task.steps)}
    others = {**baggage.get_all(more), **baggage.get_all(context)}
    going = baggage.clear(context)
    for key, value in {**own, **{key: value for key, value in others.items() if key not in own}}.items():
        going = baggage.set_baggage(key, value, going)
    headers: dict[str, str] = {}
    _trace_context.inject(headers, going)
    _baggage.inject(headers, going)
    back = arrived(headers)
    if back is None or back.task != task:
        names = f"{task.op_name[:40]!r} and {task.task_id[:40]!r}"
        raise ValueError(f"op_name and task_id, {names}, are too long to be carried to another process")
    return headers


def arrived(carrier: Mapping[str, str]) -> Arrived | None:
    """The task that headers or environment variables carry, in whatever case; None where they carry none."""
    given: dict[str, str] = {}
    for name, value in carrier.items():
        key = name.lower()
        if key in _FIELDS:
            # A header may come in several lines.
            given[key] = f"{given[key]},{value}" if key in given and key != "traceparent" else value
    context = _baggage.extract(given, _trace_context.extract(given))
    op_name, task_id = _text(OP_NAME, context), _text(TASK_ID, context)
    if op_name is None or task_id is None:
        return None
    last_step = _number(STEP, context) or 0
    return Arrived(Carried(op_name, task_id, last_step, _number(_STEPS, context)), context)


def environment_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers as environment variables."""
    return {key.upper(): value for key, value in headers.items()}


def without_task(environment: Mapping[str, str]) -> dict[str, str]:
    """Environment variables but for those that carry a trace."""
    return {key: value for key, value in environment.items() if key.lower() not in _FIELDS}


def _escaped(name: str) -> str:
    """A name in characters that no header, and no propagator, changes."""
    content = name.encode("utf-8", "surrogatepass")
    return _UNSAFE.sub(lambda byte: b"~%02X" % byte[0][0], content).decode()


def _text(key: str, context: Context) -> str | None:
    value = baggage.get_baggage(key, context)
    if not isinstance(value, str):
        return None
    content = _ESCAPE.sub(
        lambda escape: bytes.fromhex(escape[1].decode()), value.encode("utf-8", "surrogatepass")
    )
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # not carried by us
        return content.decode("utf-8", "replace")


def _number(key: str, context: Context) -> int | None:
    value = _text(key, context) or ""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
