"""All rules over one kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from otel_kernel_trace.measurements import measurement_in
from otel_kernel_trace.suspicion import cpp_rules, python_rules, timing
from otel_kernel_trace.suspicion.model import Examined, Suspicion
from otel_kernel_trace.suspicion.program import program_of
from otel_kernel_trace.suspicion.source import Source

_MOST_OF_A_RULE = 5
"""Of one kind; the others would say the same."""


def suspicions_of(
    profile: str = "",
    implementation: str = "",
    reference: str = "",
    *,
    framework: str = "",
    impl_type: str = "",
) -> tuple[Suspicion, ...]:
    """What a person should look at before believing a measurement. Pure, linear, never raises.

    Args:
        profile: as the Verifier gave it.
        implementation: source of the kernel, of whatever language; at most the first 2 MB are looked at.
        reference: source of the reference task.
        framework: what the reference is written in.
        impl_type: what the kernel is written in: rules that ask whether the work is done by hand
            hold for the languages in which it is.

    Returns:
        Timing first, then by line; none says that a kernel cheats.
    """
    given = Examined(measurement_in(profile), Source(implementation), Source(reference), framework, impl_type)
    found: dict[tuple[str, int | None], Suspicion] = {}
    for hints in _hints(given):
        with suppress(RecursionError):  # the caller's stack may be nearly full
            for one in islice(hints, _MOST_OF_A_RULE):
                found.setdefault((one.kind, one.line), one)
    return tuple(sorted(found.values(), key=lambda one: one.line or 0))


def _hints(given: Examined) -> Iterator[Iterator[Suspicion]]:
    """Rule by rule."""
    for rule in (*timing.RULES, *cpp_rules.RULES):
        yield rule(given)
    program = program_of(given.source)
    for python_rule in python_rules.RULES:
        yield python_rule(given, program)
