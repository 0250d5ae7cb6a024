"""Python's warnings. https://docs.python.org/3/library/warnings.html"""

from __future__ import annotations

from typing import NamedTuple

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of


class _Warned(NamedTuple):
    file: str
    line: int
    type: str
    message: str


class PythonWarningParser(Parser):
    """``file.py:12: UserWarning: message``."""

    signs = ("Warning: ",)

    def feed(self, line: Line) -> bool:
        warned = _warned(line.text)
        if warned is not None:
            self.findings.append(
                Finding(
                    "python",
                    "warning",
                    category_of(warned.message),
                    warned.message,
                    line.number,
                    file=warned.file,
                    line=warned.line,
                    code=warned.type,
                )
            )
        return False


def _warned(text: str) -> _Warned | None:
    before, _, message = text.partition("Warning: ")
    place, _, kind = before.rpartition(": ")
    file, _, number = place.rpartition(":")
    name = f"{kind.rpartition('.')[2]}Warning"
    if not file or not number.isascii() or not number.isdigit() or len(number) > 9 or not name.isidentifier():
        return None
    return _Warned(file, int(number), name, message.strip())
