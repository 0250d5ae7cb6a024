"""What the texts of an action tell: diagnostics, resources of kernels, suspicions. Pure functions.

They are found where the program watches its own work, in the thread that ends the action, so
that every exporter has them; for spans that other code made, where these are written.
:mod:`otel_kernel_trace.examination` looks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes

if TYPE_CHECKING:
    from otel_kernel_trace.examination import Findings

_logger = logging.getLogger("otel_kernel_trace")

_ERROR_LOG: Final = attributes.PART_PREFIX + attributes.ERROR_LOG
_FOUND: Final = (attributes.DIAGNOSTIC_ERRORS, attributes.SUSPICIONS)


def findings_in(given: Mapping[str, AttributeValue]) -> Findings | None:
    """What an action's attributes tell; None where that is nothing, or was found before.

    Takes linear time, and never raises.
    """
    if not (given.get(_ERROR_LOG) or attributes.VERIFY_RESULT in given) or any(n in given for n in _FOUND):
        return None
    try:
        # Parsers are loaded for the first log; with no file left to open they can't be.
        from otel_kernel_trace.examination import examine

        return examine(given)
    except Exception as error:  # noqa: BLE001 - the program that we watch goes on
        _logger.warning("a log could not be looked through: %r", error)
        return None
