"""A hint that a measurement or a kernel is not to be trusted as it stands."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from otel_kernel_trace.measurements import Measurement
from otel_kernel_trace.suspicion.source import Source

Kind = Literal[
    "aliased_output",
    "background_work",
    "below_launch",
    "beyond_device",
    "cached_result",
    "changed_tolerance",
    "contradicting_speedup",
    "copied_reference",
    "empty_kernel",
    "hard_coded",
    "implausible_speedup",
    "lazy_output",
    "library_call",
    "no_kernel",
    "other_stream",
    "patched_checker",
    "reads_reference",
    "reference_fallback",
    "unused_kernel",
    "zero_time",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

Confidence = Literal["low", "medium", "high"]
"""How seldom an honest kernel looks like that."""
_CONFIDENCES: Final[tuple[Confidence, ...]] = get_args(Confidence)

_MAX_EVIDENCE = 200
_MAX_DECODED = 1000


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something that a person should look at. It is a hint, and no verdict."""

    kind: Kind
    reason: str
    """A sentence."""
    line: int | None = None
    """Of the implementation's source, from 1; None where it is about the measurement or about all of it."""
    evidence: str = ""
    """The line itself, cut where it is long; of a measurement the figures."""
    confidence: Confidence = "medium"


@dataclass(frozen=True, slots=True)
class Examined:
    """What the rules look at."""

    measurement: Measurement
    source: Source
    reference: Source
    framework: str
    impl_type: str

    def at(self, line: int, kind: Kind, reason: str, confidence: Confidence = "medium") -> Suspicion:
        """A suspicion about a line of the source."""
        return Suspicion(kind, reason, line, self.source.line(line)[:_MAX_EVIDENCE], confidence)


def encode(suspicions: Iterable[Suspicion]) -> str:
    """As the attribute ``kernel_trace.suspicions`` holds them: a JSON list, all in ASCII."""
    return json.dumps(
        [
            {
                "kind": one.kind,
                "reason": one.reason,
                **({} if one.line is None else {"line": one.line}),
                **({"evidence": one.evidence} if one.evidence else {}),
                "confidence": one.confidence,
            }
            for one in suspicions
        ],
        separators=(",", ":"),
    )


def decode(text: object) -> tuple[Suspicion, ...]:
    """What :func:`encode` wrote; what is none of it is passed over. Never raises."""
    if not isinstance(text, str):
        return ()
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    found = [_decoded(one) for one in given[:_MAX_DECODED]] if isinstance(given, list) else []
    return tuple(one for one in found if one is not None)


def _decoded(given: object) -> Suspicion | None:
    if not isinstance(given, dict):
        return None
    kind = next((kind for kind in KINDS if kind == given.get("kind")), None)
    reason, line, evidence = given.get("reason"), given.get("line"), given.get("evidence", "")
    confidence = next((one for one in _CONFIDENCES if one == given.get("confidence")), _CONFIDENCES[1])
    if kind is None or not isinstance(reason, str):
        return None
    return Suspicion(
        kind,
        reason,
        line if type(line) is int and line > 0 else None,
        evidence if isinstance(evidence, str) else "",
        confidence,
    )
