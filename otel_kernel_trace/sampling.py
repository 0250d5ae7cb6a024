"""Recording what a sampler drops, without sampling it.

A span that is recorded and not sampled reaches every processor, and those that feed
exporters pass it over: a backend gets its share, and the files get all.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import TYPE_CHECKING

from opentelemetry.trace import SpanContext, Tracer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.sdk.trace.sampling import Sampler

_is_wanted = False


def record_what_is_dropped() -> None:
    """From now on this package's own spans are recorded whatever the sampler says."""
    global _is_wanted
    _is_wanted = True


def recording_tracer(tracer: Tracer, dropped: SpanContext) -> Tracer | None:
    """A tracer for one span, which the sampler of ``tracer`` has dropped; None where nobody wants it.

    The span has the ids that it had: the sampler may decide by them what becomes of its children.
    """
    if not _is_wanted:
        return None
    real = getattr(tracer, "_tracer", tracer)  # a proxy's, once there is a provider
    if not hasattr(real, "sampler") or not hasattr(real, "id_generator"):
        return None
    recording = copy.copy(real)
    recording.sampler = _recording_sampler()
    recording.id_generator = _SameIds(dropped, real.id_generator)
    assert isinstance(recording, Tracer)
    return recording


def keep_steps(tracer: Tracer, op_name: str, task_id: str, run: int, steps: int) -> int | None:
    """Keep steps on disk for another process, where a processor of the tracer's has a tree.

    Returns:
        The step before the first of them, None where nothing keeps them.
    """
    real = getattr(tracer, "_tracer", tracer)
    several = getattr(real, "span_processor", None)
    for processor in getattr(several, "_span_processors", ()):
        keep = getattr(processor, "keep_steps", None)
        if keep is not None and steps:
            kept: int | None = keep(op_name, task_id, run, steps)
            if kept is not None:
                return kept
    return None


@cache
def _recording_sampler() -> Sampler:
    from opentelemetry.sdk.trace.sampling import Decision, StaticSampler

    return StaticSampler(Decision.RECORD_ONLY)


class _SameIds:
    """An SDK ``IdGenerator``, by its methods: to derive from it would load the SDK."""

    def __init__(self, context: SpanContext, real: IdGenerator) -> None:
        self._context = context
        self._real = real

    def generate_trace_id(self) -> int:
        return self._context.trace_id

    def generate_span_id(self) -> int:
        return self._context.span_id

    def is_trace_id_random(self) -> bool:
        return self._real.is_trace_id_random()
