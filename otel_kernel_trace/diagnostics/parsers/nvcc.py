"""nvcc: its front end's messages with the caret below, and what the driver says.

https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/ ; the front end is EDG's,
https://www.edg.com/docs/edg_cpp.pdf
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.model import Severity
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of, identifier_of

_KINDS: Final = ("catastrophic error", "internal error", "fatal error", "error", "warning", "remark", "note")
_MESSAGE: Final = re.compile(
    r"(?P<file>[^\s()][^()\n]{0,500})\((?P<line>\d{1,9})\): (?P<kind>" + "|".join(_KINDS) + r")"
    r"(?: #(?P<code>\d{1,6}(?:-D)?))?: (?P<message>.*)"
)
_AT_END: Final = re.compile(
    r"(?P<kind>catastrophic error|error|warning)(?: #(?P<code>\d{1,6}(?:-D)?))?: (?P<message>.*)"
)
_DRIVER: Final = re.compile(r"nvcc (?P<kind>fatal|error|warning) *: (?P<message>.*)")
_CONTINUES: Final = re.compile(
    r" {4,}(?:operand types are: |argument types are: |object type is: |detected during"
    r"|instantiation of |function |built-in operator)"
)
_SHOWN_INDENT: Final = 2
"""Blanks that the front end puts before the line of source that it shows."""
_WAITS: Final = 40
"""Lines after which no caret is waited for any more."""


class NvccParser(Parser):
    """``file(line): error: message``, the line of source after preprocessing, and a caret below it.

    The column is the caret's in that line: where a macro was expanded before it, the source's differs.
    """

    signs = ("): ", "nvcc ")

    def __init__(self) -> None:
        super().__init__()
        self._shown: Finding | None = None  # the message whose source and caret may follow
        self._is_note = False
        self._after_caret = False
        self._waited = 0
        self._previous = ""

    def feed(self, line: Line) -> bool:
        text = line.text
        found = _MESSAGE.match(text) if "): " in text else None
        if found is not None:
            return self._begin(found, line)
        driver = _DRIVER.match(text)
        if driver is not None:
            message = driver["message"].strip()
            severity: Severity = "warning" if driver["kind"] == "warning" else "error"
            self.findings.append(
                Finding(
                    "nvcc",
                    severity,
                    category_of(message),
                    message,
                    line.number,
                    identifier=identifier_of(message),
                )
            )
            return self._shown is not None
        return self._below(text)

    def _begin(self, found: re.Match[str], line: Line) -> bool:
        kind = found["kind"]
        code, message = found["code"], found["message"].strip()
        self._is_note = kind in ("note", "remark")
        self._after_caret = False
        self._waited = 0
        self._previous = ""
        if kind == "note":
            if self.findings:
                self.findings[-1].note(f"{found['file']}:{found['line']}: {message}")
            self._shown = None
            return False
        self._shown = Finding(
            "nvcc",
            "warning" if kind == "warning" else "note" if kind == "remark" else "error",
            category_of(message),
            message,
            line.number,
            file=found["file"],
            line=int(found["line"]),
            identifier=identifier_of(message),
            code=code,
        )
        self.findings.append(self._shown)
        return True

    def _below(self, text: str) -> bool:
        shown = self._shown
        if shown is None:
            return False
        self._waited += 1
        if not text.strip() or self._waited > _WAITS:
            self._shown = None
            return False
        if _CONTINUES.match(text):
            shown.note(text.strip())
        elif not self._after_caret and text.strip() == "^":
            column = len(text.rstrip()) - _SHOWN_INDENT
            if 0 < column <= len(self._previous):
                shown.column = column
            self._after_caret = True
        elif text.startswith("  "):
            self._previous = text
        return True
