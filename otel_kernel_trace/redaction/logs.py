"""This package's own log lines: they name what could not be written, and may quote it."""

from __future__ import annotations

import logging
from weakref import WeakValueDictionary

from otel_kernel_trace.redaction.redactor import FAILED, Redactor, marker

_logger = logging.getLogger("otel_kernel_trace")
_redactors: WeakValueDictionary[int, Redactor] = WeakValueDictionary()
_format = logging.Formatter()


def redact_log_lines(redactor: Redactor) -> None:
    """Have secrets taken out of this package's log lines, for as long as somebody has the redactor."""
    _redactors[id(redactor)] = redactor
    _logger.addFilter(_take_out)  # one, however often it is added


def _take_out(record: logging.LogRecord) -> bool:
    redactors = list(_redactors.values())
    if not redactors:
        return True
    try:
        message, trace = record.getMessage(), record.exc_text
        if record.exc_info:
            trace = _format.formatException(record.exc_info)
        for redactor in redactors:
            message = redactor.redact(message).text
            trace = redactor.redact(trace).text if trace else trace
        # An exception has what it is about, too.
        record.msg, record.args, record.exc_info, record.exc_text = message, (), None, trace
    except Exception:  # noqa: BLE001 - a line of others may have anything; it is told that there was one
        record.msg, record.args, record.exc_info, record.exc_text = marker(FAILED), (), None, None
    return True
