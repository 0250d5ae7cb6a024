"""What the texts of an action tell: diagnostics, resources of kernels, suspicions. Pure functions.

They are found where the program watches its own work, in the thread that ends the action, so
that every exporter has them; for spans that other code made, where these are written.
:mod:`otel_kernel_trace.examination` looks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes

_logger = logging.getLogger("otel_kernel_trace")

MAX_CHARS: Final = 1_000_000
"""Of a longer log the beginning and the end are looked at, half as much each, in a fraction of a second."""

_ERROR_LOG: Final = attributes.PART_PREFIX + attributes.ERROR_LOG
_FOUND: Final = (attributes.DIAGNOSTIC_ERRORS, attributes.SUSPICIONS)


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
    if not (given.get(_ERROR_LOG) or attributes.VERIFY_RESULT in given) or any(n in given for n in _FOUND):
        return None
    from otel_kernel_trace.examination import examine  # parsers are loaded for the first log

    try:
        return examine(given)
    except Exception as error:  # noqa: BLE001 - the program that we watch goes on
        _logger.warning("a log could not be looked through: %r", error)
        return None


def ends_of(log: AttributeValue) -> str:
    """A log without what is too much of it; lines keep their numbers."""
    if not isinstance(log, str) or len(log) <= MAX_CHARS:
        return log if isinstance(log, str) else ""
    begin, end = MAX_CHARS // 2, len(log) - MAX_CHARS // 2
    return log[:begin] + "\n" * max(log.count("\n", begin, end), 1) + log[end:]
