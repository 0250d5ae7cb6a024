"""A verification as three answers that are kept apart: is it right, is it fast, can that be believed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from otel_kernel_trace.diagnostics.model import Diagnostic
from otel_kernel_trace.measurements import Measurement, document_in, measurement_in, number_in, objects_in
from otel_kernel_trace.suspicion import Suspicion

_INNER: Final = ("correctness", "metadata", "accuracy")
_MAX_DIFFERENCES = 10_000
_TRIALS: Final = re.compile(r"\(?\s{0,8}([0-9]{1,9})\s{0,8}/\s{0,8}([0-9]{1,9})\s{0,8}\)?")
"""As KernelBench writes ``(5 / 5)``."""

_FIELDS: Final = {
    "max_absolute_error": "max_absolute_error",
    "max_abs_error": "max_absolute_error",
    "max_abs_err": "max_absolute_error",
    "max_difference": "max_absolute_error",
    "max_absolute_difference": "max_absolute_error",
    "max_relative_error": "max_relative_error",
    "max_rel_error": "max_relative_error",
    "max_rel_err": "max_relative_error",
    "max_relative_difference": "max_relative_error",
    "atol": "absolute_tolerance",
    "rtol": "relative_tolerance",
}


@dataclass(frozen=True, slots=True)
class Correctness:
    """How right a kernel was. What is not told is None."""

    passed: bool | None = None
    """The Verifier's verdict."""
    cases: int | None = None
    """On which the kernel was tried."""
    cases_passed: int | None = None
    max_absolute_error: float | None = None
    max_relative_error: float | None = None
    absolute_tolerance: float | None = None
    relative_tolerance: float | None = None
    wrong_share: float | None = None
    """Of the elements of the result that was compared last, those that are wrong; from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a verification says. No field follows from another: a wrong kernel may be fast."""

    correctness: Correctness
    measurement: Measurement
    suspicions: tuple[Suspicion, ...] = ()


def assess(
    passed: bool | None,
    profile: str = "",
    diagnostics: Sequence[Diagnostic] = (),
    suspicions: tuple[Suspicion, ...] = (),
) -> Assessment:
    """What a verification says, by its verdict, its profile, and what its log was found to say."""
    return Assessment(_correctness(passed, profile, diagnostics), measurement_in(profile), tuple(suspicions))


def _correctness(passed: bool | None, profile: str, diagnostics: Iterable[Diagnostic]) -> Correctness:
    told: dict[str, float] = {}
    cases = cases_passed = None
    for one in objects_in(document_in(profile)):
        inner = [value for name in _INNER if isinstance(value := one.get(name), dict)]
        for given in (one, *inner):
            for key, field in _FIELDS.items():
                if (number := _largest(given.get(key))) is not None:
                    told.setdefault(field, number)
            if cases is None:
                cases, cases_passed = _cases(given)
    for diagnostic in diagnostics:
        if diagnostic.category == "numeric_mismatch":
            told.update(_of_mismatch(diagnostic.figures))
    return Correctness(passed, cases, cases_passed, **told)


def _of_mismatch(figures: Mapping[str, float]) -> dict[str, float]:
    names = {**_FIELDS, "share": "wrong_share"}
    return {names[name]: number for name, number in figures.items() if name in names}


def _cases(given: Mapping[str, object]) -> tuple[int | None, int | None]:
    trials = given.get("correctness_trials")
    if isinstance(trials, str) and len(trials) < 100 and (found := _TRIALS.fullmatch(trials.strip())):
        return int(found[2]), int(found[1])
    counts = []
    for names in (
        ("correctness_trials", "num_correct_trials", "num_cases", "test_cases"),
        ("correctness_passed",),
    ):
        numbers = (given.get(name) for name in names)
        counts.append(next((one for one in numbers if type(one) is int and one >= 0), None))
    return counts[0], counts[1]


def _largest(value: object) -> float | None:
    """A number, or the largest of a list of them."""
    values = value[:_MAX_DIFFERENCES] if isinstance(value, list) else [value]
    return max((number for one in values if (number := number_in(one)) is not None), default=None)
