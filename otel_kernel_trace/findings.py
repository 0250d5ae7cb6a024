"""What the texts of an action tell: diagnostics of its logs, resources of its kernels. Pure functions.

They are found where the program watches its own work, in the thread that ends the action, so
that every exporter has them; for spans that other code made, where these are written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.diagnostics import parse_diagnostics
from otel_kernel_trace.diagnostics.telling import attributes_of, of_resources, of_span, worth_telling
from otel_kernel_trace.resources import parse_resources

_logger = logging.getLogger("otel_kernel_trace")

MAX_CHARS: Final = 1_000_000
"""Of a longer log the beginning and the end are looked at, half as much each, in a fraction of a second."""

_ERROR_LOG: Final = attributes.PART_PREFIX + attributes.ERROR_LOG
_LOGS: Final = ("log", "stdout", "stderr", "output")
"""How the names of a Verifier's other parts end that are logs, too."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a span is to tell besides what it was given."""

    attributes: Mapping[str, AttributeValue]
    events: Sequence[Mapping[str, AttributeValue]]
    """Attributes of an event for each diagnostic that is worth one."""


def findings_in(given: Mapping[str, AttributeValue]) -> Findings | None:
    """What an action's attributes tell; None where that is nothing, or was found before.

    Takes linear time, and never raises.
    """
    if attributes.DIAGNOSTIC_ERRORS in given:
        return None
    try:
        return _found_in(given)
    except Exception as error:  # noqa: BLE001 - the program that we watch goes on
        _logger.warning("a log could not be looked through: %r", error)
        return None


def _found_in(given: Mapping[str, AttributeValue]) -> Findings | None:
    error_log = _ends_of(given.get(_ERROR_LOG))
    others = [_ends_of(value) for value in _other_logs(given)]
    if not error_log and not any(others):
        return None
    diagnostics = parse_diagnostics(error_log)
    resources = [one for log in (error_log, *others) for one in parse_resources(log)]
    if not diagnostics:  # a line's number is of the error log
        diagnostics = tuple(replace(one, log_line=0) for log in others for one in parse_diagnostics(log))
    if not diagnostics and not resources:
        return None
    found = {**of_span(diagnostics), **of_resources(resources)}
    return Findings(found, [attributes_of(one) for one in worth_telling(diagnostics)])


def _other_logs(given: Mapping[str, AttributeValue]) -> Iterator[AttributeValue]:
    """What a Verifier keeps besides its error log."""
    if attributes.VERIFY_RESULT in given:
        for name, value in given.items():
            if name.startswith(attributes.PART_PREFIX) and name.endswith(_LOGS) and name != _ERROR_LOG:
                yield value


def _ends_of(log: AttributeValue) -> str:
    """A log without what is too much of it; lines keep their numbers."""
    if not isinstance(log, str) or len(log) <= MAX_CHARS:
        return log if isinstance(log, str) else ""
    begin, end = MAX_CHARS // 2, len(log) - MAX_CHARS // 2
    return log[:begin] + "\n" * max(log.count("\n", begin, end), 1) + log[end:]
