"""ptxas, the assembler, which Triton also calls ptxas-blackwell, and nvlink, the device linker.

https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#ptxas-options
Their information lines are :mod:`otel_kernel_trace.resources`' matter.
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of, identifier_of

_MESSAGE: Final = re.compile(
    r"(?P<tool>ptxas|nvlink)(?:-\w{1,40})? (?P<kind>error|fatal|warning) *: (?P<message>.*)"
)
_IN_FILE: Final = re.compile(
    r"ptxas(?:-\w{1,40})? (?P<file>[^;\n]{1,500}?), line (?P<line>\d{1,9}); (?P<kind>error|fatal"
    r"|warning) *: (?P<message>.*)"
)
_ENTRY: Final = re.compile(r"(?:[Ee]ntry )?[Ff]unction(?: :)? '(?P<name>[^'\n]{1,500})'")
_TOO_MUCH: Final = re.compile(
    r"uses too much (?P<what>[\w ]{1,40}?) (?:data |space )?\((?P<required>0x[0-9a-fA-F]+"
    r"|\d+) bytes?, (?P<limit>0x[0-9a-fA-F]+|\d+) max"
)
_SPILLS: Final = re.compile(r"[Rr]egisters are spilled|spilled to local memory")


class PtxasParser(Parser):
    """``ptxas error   : …`` and ``ptxas file.ptx, line N; error   : …``; the line is the assembly's."""

    signs = ("ptxas", "nvlink ")

    def feed(self, line: Line) -> bool:
        start = max(line.text.find("ptxas"), 0) or max(line.text.find("nvlink "), 0)
        found = _MESSAGE.match(line.text, start) or _IN_FILE.match(line.text, start)
        if found is None:
            return False
        named = found.groupdict()
        message = found["message"].strip()
        finding = Finding(
            named.get("tool") or "ptxas",
            "warning" if found["kind"] == "warning" else "error",
            category_of(message),
            message,
            line.number,
            file=named.get("file"),
            line=int(named["line"]) if named.get("line") else None,
            identifier=identifier_of(message),
            consequence=message.startswith("Ptx assembly aborted"),
        )
        entry = _ENTRY.search(message)
        if entry is not None and finding.category != "undefined_name":
            finding.function = finding.identifier = entry["name"]
        too_much = _TOO_MUCH.search(message)
        if too_much is not None:
            finding.category = "resource"
            finding.figures = {name: float(int(too_much[name], 0)) for name in ("required", "limit")}
        elif _SPILLS.search(message):
            finding.category = "resource"
        self.findings.append(finding)
        return False
