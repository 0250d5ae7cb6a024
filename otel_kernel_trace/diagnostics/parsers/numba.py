"""numba: what its compiler found, below the exception that names the step.

https://numba.readthedocs.io/en/stable/user/troubleshoot.html
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.exceptions import exception_line
from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of, identifier_of

_ERROR: Final = re.compile(r"numba\.(?:core\.)?errors\.(?P<type>\w{1,100})(?:: (?P<message>.*)|:)?$")
_FAILED: Final = re.compile(r"Failed in .{0,100} \(step: [^()]{0,100}\)$")
_PLACE: Final = re.compile(r" *File \"(?P<file>[^\"\n]{1,500})\", line (?P<line>\d{1,9}):$")
_WAITS: Final = 200
"""Lines of a message in which a place is looked for: numba lists candidates."""


class NumbaParser(Parser):
    """``numba.core.errors.TypingError: Failed in nopython mode …``, the cause, and its place."""

    signs = ("numba.errors.", "numba.core.errors.")
    precedence = 2

    def __init__(self) -> None:
        super().__init__()
        self._error: Finding | None = None
        self._step = ""
        self._waited = 0

    def feed(self, line: Line) -> bool:
        found = _ERROR.match(line.text)
        if found is not None and found["type"].endswith("Warning"):
            return self._error is not None
        if found is not None:
            return self._begin(found, line.number)
        return self._below(line.text)

    def _begin(self, found: re.Match[str], number: int) -> bool:
        message = (found["message"] or "").strip()
        self._error = Finding("numba", "error", category_of(message), message, number, code=found["type"])
        self._error.identifier = identifier_of(message)
        self._step = message if _FAILED.match(message) or not message else ""
        self._waited = 0
        self.findings.append(self._error)
        return True

    def _below(self, text: str) -> bool:
        error = self._error
        if error is None:
            return False
        self._waited += 1
        if self._waited > _WAITS or text.startswith("Traceback "):
            self._error = None
            return False
        place = _PLACE.match(text)
        if place is not None:
            error.file, error.line = place["file"], int(place["line"])
            self._error = None
            return False
        if _FAILED.match(text) and self._waited == 1:  # a kernel that calls another: once for each
            self._waited = 0
        elif self._waited == 1 and (self._step or not error.message):
            self._say(error, text.strip())
        elif text.startswith(("During: ", " >>> ")):
            error.note(text.strip())
        return True

    def _say(self, error: Finding, text: str) -> None:
        if not text:
            return
        error.note(self._step)
        cause = exception_line(text)
        if cause is not None and cause.message and cause.type and cause.type.endswith("Error"):
            error.code, text = cause.type, cause.message
        error.message = text
        error.category = category_of(text, error.code)
        if error.category == "other" and error.code == "TypingError":
            error.category = "type"
        error.identifier = identifier_of(text)
