"""Triton's own errors: a place in a kernel, its source up to there, a caret, and what is wrong.

The line counts from the kernel's ``def``, from 1; the column is ``col_offset`` of Python's ``ast``, which
counts from 0, and is left as the log has it:
https://github.com/triton-lang/triton/blob/main/python/triton/compiler/errors.py
Errors of its passes are MLIR's: ``kernel.py:12:20: error: 'tt.load' op …``.
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.exceptions import called, said
from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of, identifier_of

_AT: Final = re.compile(r"at (?P<line>\d{1,9}):(?P<column>\d{1,9}):(?P<source>def .*)?$")
_TYPE: Final = re.compile(
    r"(?:.*[. ])?(?P<type>CompilationError|CompileTimeAssertionFailure|UnsupportedLanguageConstruct): $"
)
_DEF: Final = re.compile(r"\s*def (?P<name>\w{1,200})\(")
_PASS: Final = re.compile(
    r"(?:loc\(\")?(?P<file>[^:\"\n]{1,500}\.py)\"?:(?P<line>\d{1,9}):(?P<column>\d{1,9})\)?: "
    r"(?P<kind>error|warning): (?P<message>.*)"
)
_CHECKER_CODE: Final = re.compile(r"  \[[\w-]{1,60}\]$")
_RESOURCES: Final = re.compile(
    r"out of resource: (?P<what>[\w ]{1,60}), Required: (?P<required>\d{1,18}), Hardware limit: "
    r"(?P<limit>\d{1,18})"
)
_WAITS: Final = 40
"""Lines after which no caret is waited for: Triton shows twelve."""


class TritonParser(Parser):
    """``CompilationError: at L:C:`` with or without the exception's name before it, and errors of passes."""

    signs = ("at ", ".py:", '.py":')
    precedence = 2

    def __init__(self) -> None:
        super().__init__()
        self._at: Finding | None = None
        self._seen_caret = False
        self._waited = 0

    def feed(self, line: Line) -> bool:
        text = line.text
        start = text.rfind("at ")
        found = _AT.match(text.rstrip(), start) if start >= 0 else None
        if found is not None and (start == 0 or text[start - 1] in " :\"'("):
            return self._begin(found, text[:start], line)
        if ".py" in text and "error: " in text:
            self._pass(line)
        return self._below(text)

    def _begin(self, found: re.Match[str], before: str, line: Line) -> bool:
        named = _TYPE.match(before)
        source = _DEF.match(found["source"]) if found["source"] else None
        self._at = Finding(
            "triton",
            "error",
            "other",
            named["type"] if named is not None else "CompilationError",
            line.number,
            line=int(found["line"]),
            column=int(found["column"]),
            code=named["type"] if named is not None else "CompilationError",
            function=source["name"] if source is not None else None,
        )
        self._seen_caret = False
        self._waited = 0
        self.findings.append(self._at)
        return True

    def _below(self, text: str) -> bool:
        at = self._at
        if at is None:
            return False
        self._waited += 1
        stripped = text.strip()
        if self._seen_caret:
            self._at = None
            if stripped and not text.startswith("Traceback "):
                self._say(at, stripped)
            return False
        definition = _DEF.match(text)
        if definition is not None:
            at.function = definition["name"]
        self._seen_caret = stripped == "^"
        if self._waited > _WAITS:
            self._at = None
        return self._at is not None

    def _say(self, at: Finding, text: str) -> None:
        wrapped = called(text)
        if wrapped is not None:
            at.code, at.message = wrapped.type, wrapped.message
        else:
            at.message = text
        at.category = category_of(at.message, at.code)
        at.identifier = identifier_of(at.message)

    def _pass(self, line: Line) -> None:
        found = _PASS.match(line.text)
        if found is None or _CHECKER_CODE.search(found["message"]):
            return
        message = found["message"].strip()
        self.findings.append(
            Finding(
                "triton",
                "warning" if found["kind"] == "warning" else "error",
                category_of(message),
                message,
                line.number,
                file=found["file"],
                line=int(found["line"]),
                column=int(found["column"]),
                identifier=identifier_of(message),
            )
        )


class TritonResourcesParser(Parser):
    """``OutOfResources: out of resource: shared memory, Required: …, Hardware limit: …``."""

    signs = ("out of resource: ",)

    def feed(self, line: Line) -> bool:
        message = said(line.text.removeprefix("triton.runtime.errors.OutOfResources: ")).message
        found = _RESOURCES.match(message)
        if found is not None:
            self.findings.append(
                Finding(
                    "triton",
                    "error",
                    "resource",
                    message,
                    line.number,
                    code="OutOfResources",
                    figures={name: float(found[name]) for name in ("required", "limit")},
                )
            )
        return False
