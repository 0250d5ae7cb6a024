"""OpenTelemetry metrics of actions, for whatever ``MeterProvider`` the program has.

Without one they cost next to nothing and go nowhere. Names and units follow
https://opentelemetry.io/docs/specs/semconv/general/metrics/ . Attribute values come from
small sets, whatever the program calls its agents and operators: a time series each is
what a backend keeps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from opentelemetry.metrics import Histogram, Meter, get_meter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.record import Record
from otel_kernel_trace.version import __version__

_MAX_NAMES = 100
"""Agents of the program's own that are told apart."""
_MAX_PROFILE_CHARS = 100_000

_OUTCOME = "kernel_trace.outcome"
_ERROR_TYPE = "error.type"
_TOKEN_TYPE = "gen_ai.token.type"

_SECONDS = (0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_SPEEDUPS = (0.1, 0.25, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)


class ActionMetrics:
    """Counts and measures actions. Thread-safe."""

    def __init__(self) -> None:
        meter = get_meter("otel_kernel_trace", __version__)
        self._names: set[str] = set()
        self._duration = _histogram(
            meter, "kernel_trace.action.duration", "s", "Time that an action took", _SECONDS
        )
        self._verifications = meter.create_counter(
            "kernel_trace.verifications", unit="{verification}", description="Verifications, by outcome"
        )
        self._speedup = _histogram(
            meter,
            "kernel_trace.speedup",
            "1",
            "Speed of kernels that passed, over the reference's, as their Verifier says",
            _SPEEDUPS,
        )
        self._tokens = meter.create_counter(
            "kernel_trace.tokens", unit="{token}", description="Tokens of the model calls inside actions"
        )
        self._records = meter.create_counter(
            "kernel_trace.records", unit="{record}", description="Records, written and failed"
        )

    def count_record(self, *, written: bool) -> None:
        """Count a record that was to be written."""
        self._records.add(1, {_OUTCOME: "written" if written else "failed"})

    def measure(self, span: ReadableSpan, record: Record) -> None:
        """Measure an action that has ended."""
        given = record.attributes
        kind: dict[str, AttributeValue] = {attributes.ACTION_TYPE: self._kind(record.action_type)}
        if span.start_time and span.end_time and span.end_time > span.start_time:
            failed = {_ERROR_TYPE: "_OTHER"} if span.status.status_code is StatusCode.ERROR else {}
            self._duration.record((span.end_time - span.start_time) / 1e9, {**kind, **failed})
        for name, token_type in (
            (attributes.GEN_AI_INPUT_TOKENS, "input"),
            (attributes.GEN_AI_OUTPUT_TOKENS, "output"),
        ):
            tokens = given.get(name)
            if type(tokens) is int and tokens > 0:
                self._tokens.add(tokens, {**kind, _TOKEN_TYPE: token_type})
        verdict = given.get(attributes.VERIFY_RESULT)
        if verdict is not None:
            passed = attributes.has_passed(verdict)
            self._verifications.add(1, {_OUTCOME: "passed" if passed else "failed"})
            speedup = _speedup(given) if passed else None
            if speedup is not None:
                self._speedup.record(speedup)

    def _kind(self, name: str) -> str:
        if name not in self._names:
            if len(self._names) >= _MAX_NAMES or len(name) > 100:
                return "_OTHER"
            self._names.add(name)
        return name


def _histogram(
    meter: Meter, name: str, unit: str, description: str, boundaries: Sequence[float]
) -> Histogram:
    try:
        return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=boundaries)
    except TypeError:  # an API before 1.30, which leaves the boundaries to views
        return meter.create_histogram(name, unit, description)


def _speedup(given: Mapping[str, AttributeValue]) -> float | None:
    profile = given.get(attributes.VERIFY_PROFILE)
    if not isinstance(profile, str) or len(profile) > _MAX_PROFILE_CHARS or "speedup" not in profile:
        return None
    try:
        fields = json.loads(profile)
    except (ValueError, RecursionError):
        return None
    speedup = fields.get("speedup") if isinstance(fields, dict) else None
    if not isinstance(speedup, (int, float)) or isinstance(speedup, bool):
        return None
    return float(speedup) if 0 <= speedup < math.inf else None
