"""GNU as, as gcc calls it: what it says of inline assembly and of assembler files.

https://sourceware.org/binutils/docs/as/Errors.html
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of

_HEAD: Final = ": Assembler messages:"
_MESSAGE: Final = re.compile(
    r"(?P<file>[^:\n]{1,500}):(?P<line>\d{1,9}): (?P<kind>Error|Warning|Fatal error|Info): (?P<message>.*)"
)


class AssemblerParser(Parser):
    """``a.cpp:3: Error: no such instruction: `bogus %eax'`` below ``a.cpp: Assembler messages:``."""

    signs = (_HEAD,)

    def feed(self, line: Line) -> bool:
        if line.text.rstrip().endswith(_HEAD):
            return True
        found = _MESSAGE.match(line.text)
        if found is None:
            return False
        message = found["message"].strip()
        if found["kind"] == "Info":
            if self.findings:
                self.findings[-1].note(message)
            return True
        category = category_of(message)
        self.findings.append(
            Finding(
                "as",
                "warning" if found["kind"] == "Warning" else "error",
                "syntax" if category == "other" else category,
                message,
                line.number,
                file=found["file"],
                line=int(found["line"]),
            )
        )
        return True
