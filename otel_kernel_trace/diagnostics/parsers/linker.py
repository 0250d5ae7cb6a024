"""GNU ld, gold, mold and lld.

https://sourceware.org/binutils/docs/ld/ https://lld.llvm.org/
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of, identifier_of, unquoted

_LINKER: Final = re.compile(
    r"(?:[^\s:]{0,300}/)?(?:[\w-]{1,40}-)?(?P<linker>ld(?:\.\w{1,10})?|mold|lld|collect2"
    r"|ld64\.lld)(?:\.exe)?: "
)
_IN_FUNCTION: Final = re.compile(r"in function [`'‘\"](?P<function>[^\n]{1,1000})['’\"]:$")
_UNDEFINED: Final = re.compile(
    r"(?:(?P<file>[^:()\n]{1,500})(?::(?:\([^()\n]{1,200}\)|(?P<line>\d{1,9})))?|\([^()\n]{1,200}\)): "
    r"(?P<message>(?:undefined reference to|multiple definition of|warning: |relocation ).*)"
)
_GOLD: Final = re.compile(
    r"[^:\n]{1,500}\.o:(?P<file>[^:\n]{1,500}):function (?P<function>[^\n]{1,1000}?): error: "
    r"(?P<message>(?:undefined reference to|multiple definition of) .*)"
)
_SEVERITY: Final = re.compile(r"(?P<kind>fatal error|error|warning|fatal): ")
_REFERENCED: Final = re.compile(
    r">>> (?:referenced|defined) (?:by|at|in) (?P<file>[^\s:()]{1,500})(?::(?P<line>\d{1,9}))?"
)
_MESSAGES: Final = (
    "cannot find ",
    "undefined reference to",
    "unrecognized option",
    "skipping incompatible",
    "relocation ",
    "final link failed",
    "file not recognized",
    "undefined symbol",
    "symbol(s) not found",
    "cannot open",
    "region `",
)


class LinkerParser(Parser):
    """``file.c:(.text+0xa): undefined reference to `name'``, and lld's ``>>> referenced by``."""

    signs = (
        "undefined reference to",
        "multiple definition of",
        "in function ",
        "collect2: ",
        "ld: ",
        "ld.bfd: ",
        ">>> ",
    )
    precedence = 2

    def __init__(self) -> None:
        super().__init__()
        self._function: str | None = None

    def feed(self, line: Line) -> bool:
        text = line.text
        referenced = _REFERENCED.match(text)
        if referenced is not None:
            self._refer(referenced)
            return False
        linker = _LINKER.match(text)
        if linker is not None:
            text = text[linker.end() :]
        in_function = _IN_FUNCTION.search(text) if text.endswith(":") else None
        if in_function is not None:
            self._function = in_function["function"]
            return False
        located = _UNDEFINED.match(text)
        gold = _GOLD.match(text) if located is None else None
        if (
            located is not None
        ):  # of an object without debugging information, crt1.o, only the section is told
            file = located["file"]
            self._found(located["message"], line, file and file.rpartition(": ")[2], located["line"])
        elif gold is not None:
            self._function = gold["function"]
            self._found(gold["message"], line, gold["file"], None)
        elif linker is not None:
            self._function = None
            self._bare(text, linker["linker"], line)
        return False

    def _bare(self, text: str, linker: str, line: Line) -> None:
        severity = _SEVERITY.match(text)
        message = text[severity.end() :] if severity is not None else text
        if severity is None and not message.startswith(_MESSAGES):
            return
        self._found(message, line, None, None)
        finding = self.findings[-1]
        if (severity is not None and severity["kind"] == "warning") or message.startswith(
            "skipping incompatible"
        ):
            finding.severity = "warning"
        finding.consequence = linker == "collect2" or message.startswith(
            ("final link failed", "symbol(s) not found")
        )

    def _found(self, message: str, line: Line, file: str | None, number: str | None) -> None:
        message = message.strip()
        is_warning = message.startswith("warning: ")
        message = message.removeprefix("warning: ")
        self.findings.append(
            Finding(
                "ld",
                "warning" if is_warning else "error",
                category_of(message),
                message,
                line.number,
                file=file,
                line=int(number) if number else None,
                identifier=_symbol(message),
                function=self._function,
            )
        )

    def _refer(self, found: re.Match[str]) -> None:
        if not self.findings:
            return
        finding = self.findings[-1]
        if finding.file is None:
            finding.file = found["file"]
            finding.line = int(found["line"]) if found["line"] else None
        else:
            finding.note(found.group(0).removeprefix(">>> "))


def _symbol(message: str) -> str | None:
    """A symbol as the linker writes it: it may be mangled, or have its arguments with it."""
    plain = unquoted(message)
    for before in ("undefined reference to symbol '", "undefined reference to '", "multiple definition of '"):
        if plain.startswith(before):
            return plain[len(before) :].rpartition("'")[0] or None
    if plain.startswith("undefined symbol: "):
        return plain.removeprefix("undefined symbol: ")
    if plain.startswith("cannot find -l"):
        return plain.removeprefix("cannot find ").partition(":")[0]
    return identifier_of(message)
