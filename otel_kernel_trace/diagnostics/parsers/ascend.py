"""Ascend's kernel compilers (BiSheng): errors of MLIR passes.

``loc("kernel.mlir":2:3): error: …`` is MLIR's way to write a place, https://mlir.llvm.org/docs/Diagnostics/ ;
the banner around them is triton-ascend's, https://github.com/triton-lang/triton-ascend
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of, identifier_of

_LOCATED: Final = re.compile(
    r"loc\((?:\"(?P<file>[^\"\n]{1,500})\":(?P<line>\d{1,9}):(?P<column>\d{1,9})|unknown)\): "
    r"(?P<kind>error|warning|note|remark): (?P<message>.*)"
)
_STAGE: Final = re.compile(r"\[(?P<stage>\w{1,100})\] encounters error:")
_BITS: Final = re.compile(r"requires (?P<required>\d{1,18}) bits while (?P<limit>\d{1,18}) bits")
_OPERATION: Final = re.compile(r"'(?P<name>[\w.$-]{1,200})' op ")


class AscendParser(Parser):
    """``loc("kernel.mlir":2:3): error: ub overflow, requires N bits while M bits avaliable!`` (spelt so)."""

    signs = ("loc(", "encounters error:")

    def __init__(self) -> None:
        super().__init__()
        self._stage: Finding | None = None

    def feed(self, line: Line) -> bool:
        stage = _STAGE.match(line.text)
        if stage is not None:
            self._stage = Finding(
                "bisheng",
                "error",
                "other",
                f"{stage['stage']} encounters error",
                line.number,
                code=stage["stage"],
                consequence=True,
            )
            self.findings.append(self._stage)
            return False
        found = _LOCATED.match(line.text)
        if found is not None and not (found["file"] or "").endswith(".py"):
            self._found(found, line.number)
        return False

    def _found(self, found: re.Match[str], number: int) -> None:
        message = found["message"].strip()
        if found["kind"] in ("note", "remark"):
            if self.findings:
                self.findings[-1].note(f"{found['file']}:{found['line']}: {message}")
            return
        operation = _OPERATION.match(message)
        finding = Finding(
            "bisheng",
            "warning" if found["kind"] == "warning" else "error",
            category_of(message),
            message,
            number,
            file=found["file"],
            line=int(found["line"]) if found["line"] else None,
            column=int(found["column"]) if found["column"] else None,
            identifier=operation["name"] if operation is not None else identifier_of(message),
            code=self._stage.code if self._stage is not None else None,
            consequence=message.startswith("Failed to run"),
        )
        bits = _BITS.search(message)
        if bits is not None:
            finding.figures = {name: int(bits[name]) / 8 for name in ("required", "limit")}
        self.findings.append(finding)
