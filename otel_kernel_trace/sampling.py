"""Recording what a sampler drops, without sampling it.

A span that is recorded and not sampled reaches every processor, and those that feed
exporters pass it over: a backend gets its share, and the files get all.
"""

from __future__ import annotations

import copy
from weakref import WeakKeyDictionary

from opentelemetry.trace import Tracer

_is_wanted = False
_recording: WeakKeyDictionary[Tracer, Tracer] = WeakKeyDictionary()


def record_what_is_dropped() -> None:
    """From now on this package's own spans are recorded whatever the sampler says."""
    global _is_wanted
    _is_wanted = True


def recording_tracer(tracer: Tracer) -> Tracer | None:
    """A tracer for the spans that the sampler of ``tracer`` drops; None where nobody wants them."""
    if not _is_wanted:
        return None
    real = getattr(tracer, "_tracer", tracer)  # a proxy's, once there is a provider
    if not hasattr(real, "sampler"):
        return None
    recording = _recording.get(real)
    if recording is None:
        from opentelemetry.sdk.trace.sampling import Decision, StaticSampler

        recording = copy.copy(real)
        recording.sampler = StaticSampler(Decision.RECORD_ONLY)
        _recording[real] = recording
    return recording
