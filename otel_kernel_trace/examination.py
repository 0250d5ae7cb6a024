"""The texts of one action, looked through by all that reads logs, sources and profiles. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.diagnostics import parse_diagnostics
from otel_kernel_trace.diagnostics.extent import MAX_CHARS, ends_of
from otel_kernel_trace.diagnostics.telling import attributes_of, of_resources, of_span, worth_telling
from otel_kernel_trace.resources import parse_resources
from otel_kernel_trace.suspicion import Suspicion, encode, suspicions_of

_ERROR_LOG: Final = attributes.PART_PREFIX + attributes.ERROR_LOG
_LOGS: Final = ("log", "stdout", "stderr", "output")
"""How the names of a Verifier's other parts end that are logs, too."""

_EXAMINED: Final = (
    attributes.VERIFY_PROFILE,
    attributes.VERIFY_SOURCE_IMPLEMENTATION,
    attributes.VERIFY_SOURCE_REFERENCE,
    attributes.VERIFY_FRAMEWORK,
    attributes.VERIFY_IMPL_TYPE,
)


@dataclass(frozen=True, slots=True)
class Findings:
    """What a span is to tell besides what it was given."""

    attributes: Mapping[str, AttributeValue]
    events: Sequence[Mapping[str, AttributeValue]]
    """Attributes of an event for each diagnostic that is worth one."""


def examine(given: Mapping[str, AttributeValue]) -> Findings | None:
    """What an action's attributes tell; None where that is nothing."""
    error_log = ends_of(given.get(_ERROR_LOG))
    others = [ends_of(value) for value in _other_logs(given)]
    diagnostics = parse_diagnostics(error_log)
    resources = [one for log in (error_log, *others) for one in parse_resources(log)]
    if not diagnostics:  # a line's number is of the error log
        diagnostics = tuple(replace(one, log_line=0) for log in others for one in parse_diagnostics(log))
    suspicions = _suspicions_in(given)
    if not diagnostics and not resources and not suspicions:
        return None
    found = {**of_span(diagnostics), **of_resources(resources)}
    if suspicions:
        found[attributes.SUSPICIONS] = encode(suspicions)
    return Findings(found, [attributes_of(one) for one in worth_telling(diagnostics)])


def _other_logs(given: Mapping[str, AttributeValue]) -> Iterator[AttributeValue]:
    """What a Verifier keeps besides its error log."""
    if attributes.VERIFY_RESULT in given:
        for name, value in given.items():
            if name.startswith(attributes.PART_PREFIX) and name.endswith(_LOGS) and name != _ERROR_LOG:
                yield value


def _suspicions_in(given: Mapping[str, AttributeValue]) -> Sequence[Suspicion]:
    """What a verification that passed gives to wonder about; of one that failed nobody believes anything."""
    if not attributes.has_passed(given.get(attributes.VERIFY_RESULT)):
        return ()
    texts = [given.get(name) for name in _EXAMINED]
    profile, implementation, reference, framework, impl_type = (
        text if isinstance(text, str) and len(text) <= MAX_CHARS else "" for text in texts
    )
    if not profile and not implementation:
        return ()
    return suspicions_of(profile, implementation, reference, framework=framework, impl_type=impl_type)
