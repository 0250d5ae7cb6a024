"""Which action the code runs in, also where that action is below its level and has no span.

It goes with OpenTelemetry's context, and so with threads and asyncio tasks as spans do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from opentelemetry.context import Context, create_key, get_value, set_value

from otel_kernel_trace.levels import Level, names_of

_KEY = create_key("kernel_trace.within")


class Within(NamedTuple):
    """An action that a context is in."""

    names: tuple[str, ...]
    """What directives may call it, the most specific first."""
    has_span: bool
    level: Level


@lru_cache(maxsize=256)
def action_of(action_type: str, level: Level, *, has_span: bool) -> Within:
    """The action of a type, at its level. One object, however often it is asked for."""
    return Within(names_of(action_type), has_span, level)


def entered(action: Within, context: Context) -> Context:
    """The context of what happens in an action."""
    return set_value(_KEY, action, context)


def within(context: Context | None = None) -> Within | None:
    """The innermost action of :class:`~otel_kernel_trace.KernelTracer` that a context is in.

    Args:
        context: default: the current one.
    """
    found = get_value(_KEY, context)
    return found if isinstance(found, Within) else None
