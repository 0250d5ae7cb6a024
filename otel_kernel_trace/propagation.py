"""A task's way into another process or machine: W3C trace context and baggage.

As environment variables they are called ``TRACEPARENT``, ``TRACESTATE`` and ``BAGGAGE``,
as HTTP headers ``traceparent`` and so on.
https://opentelemetry.io/docs/specs/otel/context/env-carriers/
https://www.w3.org/TR/trace-context/ , https://www.w3.org/TR/baggage/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from opentelemetry import baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from otel_kernel_trace.attributes import OP_NAME, STEP, TASK_ID

_FIELDS = ("traceparent", "tracestate", "baggage")
_MAX_BAGGAGE_CHARS = 4000
"""Of one entry, key included: more is dropped on the way."""

_trace_context = TraceContextTextMapPropagator()
_baggage = W3CBaggagePropagator()


class Arrived(NamedTuple):
    """What came from another process."""

    op_name: str
    task_id: str
    last_step: int
    """The last step that is not for this process."""
    context: Context
    """With the span under which its actions stand, and the baggage."""


def carried(context: Context, op_name: str, task_id: str, last_step: int) -> dict[str, str]:
    """The headers that carry a task.

    Raises:
        ValueError: a name is too long to be carried.
    """
    for key, value in ((OP_NAME, op_name), (TASK_ID, task_id), (STEP, str(last_step))):
        # Names may hold what no header can; the propagator would fail, or drop them.
        quoted = quote(value.encode("utf-8", "surrogatepass"), safe="")
        if len(quote(quoted)) + len(key) > _MAX_BAGGAGE_CHARS:
            raise ValueError(f"{value[:40]!r}… is too long to be carried to another process as {key}")
        context = baggage.set_baggage(key, quoted, context)
    headers: dict[str, str] = {}
    _trace_context.inject(headers, context)
    _baggage.inject(headers, context)
    return headers


def arrived(carrier: Mapping[str, str]) -> Arrived | None:
    """The task that headers or environment variables carry, in whatever case; None where they carry none."""
    given = {key.lower(): value for key, value in carrier.items() if key.lower() in _FIELDS}
    context = _baggage.extract(given, _trace_context.extract(given))
    op_name, task_id = _text(OP_NAME, context), _text(TASK_ID, context)
    if op_name is None or task_id is None:
        return None
    step = _text(STEP, context) or ""
    last_step = int(step) if step.isascii() and step.isdigit() and len(step) < 10 else 0
    return Arrived(op_name, task_id, last_step, context)


def environment_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers as environment variables."""
    return {key.upper(): value for key, value in headers.items()}


def without_task(environment: Mapping[str, str]) -> dict[str, str]:
    """Environment variables but for those that carry a trace."""
    return {key: value for key, value in environment.items() if key.lower() not in _FIELDS}


def _text(key: str, context: Context) -> str | None:
    value = baggage.get_baggage(key, context)
    if not isinstance(value, str):
        return None
    content = unquote_to_bytes(value)
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # not carried by us
        return content.decode("utf-8", "replace")
