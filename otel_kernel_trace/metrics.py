"""OpenTelemetry metrics of actions and stages, for whatever ``MeterProvider`` the program has.

Without one they cost next to nothing. Names and units follow
https://opentelemetry.io/docs/specs/semconv/general/metrics/ . Attribute values come from
small sets, whatever the program calls its agents: a time series each is what a backend keeps.

What is measured is put in a queue, and goes to the instruments when somebody collects:
an instrument's lock may be held by a thread that a forked child has not, or by the
very thread in which the garbage collector ends a span.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, get_args
from weakref import WeakKeyDictionary

from opentelemetry.metrics import (
    CallbackOptions,
    Histogram,
    Meter,
    MeterProvider,
    NoOpMeterProvider,
    Observation,
    get_meter,
    get_meter_provider,
)
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.actions import ActionType
from otel_kernel_trace.diagnostics.model import CATEGORIES, Severity
from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.measurements import speedup_in
from otel_kernel_trace.record import Record
from otel_kernel_trace.version import __version__

_MAX_QUEUED = 50_000
"""Actions and stages between two collections; of more the oldest are not measured."""
_MAX_NAMES = 100
"""Agents of the program's own that are told apart, and likewise stages and tools."""
_MAX_PROFILE_CHARS = 100_000
_MAX_TOKENS = 2**63

_OUTCOME: Final = "kernel_trace.outcome"
_ERROR_TYPE: Final = "error.type"
_KIND: Final = "kernel_trace.redacted.kind"
_TOKEN_TYPE: Final = "gen_ai.token.type"
_SUSPICION_KIND: Final = "kernel_trace.suspicion.kind"
_OTHER: Final = "_OTHER"
"""https://opentelemetry.io/docs/specs/semconv/registry/attributes/error/"""

_SEVERITIES: Final = get_args(Severity)
_UNNAMED: Final = "unknown"

_SECONDS = (0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_STAGE_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_SPEEDUPS = (0.1, 0.25, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)


class _Names:
    """A small set of names: those of the program's own as far as there is room."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        """The name as a metric has it."""
        if name in self._known:
            return name
        if len(name) > 100 or len(self._known) >= _MAX_NAMES:
            return _OTHER
        if not name.isascii():
            name = name.encode("utf-8", "backslashreplace").decode()  # lone surrogates can't be sent
        self._known.add(name)
        return name


_agents, _stages, _tools = _Names(), _Names(), _Names()

_Labels = tuple[tuple[str, str], ...]


class _Measured(NamedTuple):
    """What is measured of one action or stage."""

    seconds: float | None
    failed: bool
    diagnostics: Sequence[_Labels]
    """Tool, category and severity of each."""
    action: str | None = None
    """Its type; None for a stage."""
    stage: str = ""
    tokens: tuple[int, int] = (0, 0)
    passed: bool | None = None
    speedup: float | None = None
    suspicions: Sequence[str] = ()
    """The kind of each."""


class _Queue:
    """What was measured since the last collection, and the records counted so far."""

    def __init__(self) -> None:
        self.measured: deque[_Measured] = deque(maxlen=_MAX_QUEUED)
        self.records = {"written": 0, "failed": 0}
        self.secrets: dict[str, int] = {}
        after_fork_in_child(self)

    def after_fork(self) -> None:
        self.measured.clear()  # the parent's are the parent's
        self.records = {"written": 0, "failed": 0}
        self.secrets = {}


# By provider, as tests and some programs have one after the other.
_queues: WeakKeyDictionary[MeterProvider, _Queue] = WeakKeyDictionary()


class ActionMetrics:
    """Counts and measures actions. Thread-safe; nothing in here raises."""

    def __init__(self) -> None:
        with suppress(Exception):  # other people's providers run in there
            meter = get_meter("otel_kernel_trace", __version__)
            self._duration = _histogram(
                meter, "kernel_trace.action.duration", "s", "Time that an action took", _SECONDS
            )
            self._speedup = _histogram(
                meter,
                "kernel_trace.speedup",
                "1",
                "Speed of kernels that passed, over the reference's, as their Verifier says",
                _SPEEDUPS,
            )
            self._verifications = meter.create_counter(
                "kernel_trace.verifications", "{verification}", "Verifications, by outcome"
            )
            self._tokens = meter.create_counter(
                "kernel_trace.tokens", "{token}", "Tokens of the model calls inside actions"
            )
            self._stage_duration = _histogram(
                meter, "kernel_trace.stage.duration", "s", "Time that a stage took", _STAGE_SECONDS
            )
            self._diagnostics = meter.create_counter(
                "kernel_trace.diagnostics", "{diagnostic}", "What compilers, runs and comparisons said"
            )
            self._suspicions = meter.create_counter(
                "kernel_trace.suspicions", "{suspicion}", "Hints that a measurement is not to be trusted"
            )
            meter.create_observable_counter(
                "kernel_trace.records", [self._collect], "{record}", "Records, written and failed"
            )
            meter.create_observable_counter(
                "kernel_trace.redactions",
                [_collect_secrets],
                "{secret}",
                "Secrets taken out of texts, by kind",
            )

    def count_record(self, *, written: bool) -> None:
        """Count a record that was to be written."""
        queue = _queue()
        if queue is not None:
            queue.records["written" if written else "failed"] += 1

    def count_secrets(self, counts: Mapping[str, int]) -> None:
        """Count secrets that were taken out of texts, by kind."""
        queue = _queue()
        if queue is not None:
            for kind, number in counts.items():
                queue.secrets[kind] = queue.secrets.get(kind, 0) + number

    def measure(self, span: ReadableSpan, record: Record) -> None:
        """Measure an action that has ended."""
        queue = _queue()
        if queue is None:
            return
        with suppress(Exception):  # a span may have anything
            queue.measured.append(_measured(span, record))

    def measure_stage(self, span: ReadableSpan, given: Mapping[str, AttributeValue]) -> None:
        """Measure a stage that has ended; ``given`` are its attributes. Any other span is passed over."""
        name = given.get(attributes.STAGE)
        queue = None if name is None else _queue()
        if queue is None:
            return
        with suppress(Exception):
            queue.measured.append(
                _Measured(
                    seconds=_seconds(span),
                    failed=span.status.status_code is StatusCode.ERROR,
                    diagnostics=_diagnostics(span),
                    stage=_stages.of(attributes.text(name)),
                )
            )

    def _collect(self, _: CallbackOptions) -> Iterable[Observation]:
        queue = _queue()
        if queue is None:
            return []
        while queue.measured:
            try:
                self._tell(queue.measured.popleft())
            except IndexError:  # another reader collects, too
                break
        return [Observation(number, {_OUTCOME: outcome}) for outcome, number in queue.records.items()]

    def _tell(self, one: _Measured) -> None:
        error = {_ERROR_TYPE: _OTHER} if one.failed else {}
        for labels in one.diagnostics:
            self._diagnostics.add(1, dict(labels))
        if one.action is None:
            if one.seconds is not None:
                self._stage_duration.record(one.seconds, {attributes.STAGE: one.stage, **error})
            return
        kind: dict[str, AttributeValue] = {attributes.ACTION_TYPE: one.action}
        if one.seconds is not None:
            self._duration.record(one.seconds, {**kind, **error})
        for number, token_type in zip(one.tokens, ("input", "output"), strict=True):
            if number:
                self._tokens.add(number, {**kind, _TOKEN_TYPE: token_type})
        if one.passed is not None:
            self._verifications.add(1, {_OUTCOME: "passed" if one.passed else "failed"})
        if one.speedup is not None:
            self._speedup.record(one.speedup)
        for suspicion in one.suspicions:
            self._suspicions.add(1, {_SUSPICION_KIND: suspicion})


def _collect_secrets(_: CallbackOptions) -> Iterable[Observation]:
    queue = _queue()
    secrets = dict(queue.secrets) if queue is not None else {}
    return [Observation(number, {_KIND: kind}) for kind, number in secrets.items()]


def _queue() -> _Queue | None:
    """Of the provider that there is; None where nobody would collect."""
    provider = get_meter_provider()
    if isinstance(provider, NoOpMeterProvider) or type(provider).__name__ == "_ProxyMeterProvider":
        return None
    queue = _queues.get(provider)
    return _queues.setdefault(provider, _Queue()) if queue is None else queue


def _measured(span: ReadableSpan, record: Record) -> _Measured:
    given = record.attributes
    verdict = given.get(attributes.VERIFY_RESULT)
    passed = None if verdict is None else attributes.has_passed(verdict)
    return _Measured(
        seconds=_seconds(span),
        failed=span.status.status_code is StatusCode.ERROR,
        diagnostics=_diagnostics(span),
        action=_kind(record.action_type),
        tokens=(
            _tokens(given.get(attributes.GEN_AI_INPUT_TOKENS)),
            _tokens(given.get(attributes.GEN_AI_OUTPUT_TOKENS)),
        ),
        passed=passed,
        speedup=_speedup(given) if passed else None,
        suspicions=_suspicions(given.get(attributes.SUSPICIONS)),
    )


def _seconds(span: ReadableSpan) -> float | None:
    start, end = span.start_time or 0, span.end_time or 0
    return (end - start) / 1e9 if 0 < start < end else None


def _kind(name: str) -> str:
    return name if name in ActionType.__members__ else _agents.of(name)


def _diagnostics(span: ReadableSpan) -> list[_Labels]:
    """Of the span's events; its attributes tell of the first error alone."""
    found: list[_Labels] = []
    for event in span.events:
        if event.name == attributes.DIAGNOSTIC:
            given = event.attributes or {}
            tool = attributes.text(given.get(attributes.DIAGNOSTIC_TOOL, _UNNAMED))
            category = given.get(attributes.DIAGNOSTIC_CATEGORY)
            severity = given.get(attributes.DIAGNOSTIC_SEVERITY)
            found.append(
                (
                    (attributes.DIAGNOSTIC_TOOL, _tools.of(tool)),
                    (attributes.DIAGNOSTIC_CATEGORY, str(category) if category in CATEGORIES else _OTHER),
                    (attributes.DIAGNOSTIC_SEVERITY, str(severity) if severity in _SEVERITIES else _OTHER),
                )
            )
    return found


def _suspicions(text: AttributeValue) -> Sequence[str]:
    if not isinstance(text, str) or len(text) > _MAX_PROFILE_CHARS:
        return ()
    from otel_kernel_trace.suspicion import decode  # most programs' spans have none

    return [one.kind for one in decode(text)]


def _tokens(value: object) -> int:
    return value if type(value) is int and 0 < value < _MAX_TOKENS else 0


def _histogram(
    meter: Meter, name: str, unit: str, description: str, boundaries: Sequence[float]
) -> Histogram:
    try:
        return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=boundaries)
    except TypeError:  # an API before 1.30, which leaves the boundaries to views
        return meter.create_histogram(name, unit, description)


def _speedup(given: Mapping[str, AttributeValue]) -> float | None:
    profile = given.get(attributes.VERIFY_PROFILE)
    if not isinstance(profile, str) or len(profile) > _MAX_PROFILE_CHARS:
        return None
    return speedup_in(profile)
