"""The sanitizers of gcc and clang, and NVIDIA's compute-sanitizer.

https://github.com/google/sanitizers/wiki/AddressSanitizer https://clang.llvm.org/docs/UndefinedBehaviorSanitizer.html
https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser

_REPORT: Final = re.compile(
    r"(?:==\d{1,10}==)?(?:ERROR|WARNING): (?P<name>Address|HWAddress|Leak|Memory"
    r"|Thread)Sanitizer:? (?P<message>.*)"
)
_UNDEFINED: Final = re.compile(
    r"(?P<file>[^:\n]{1,500}):(?P<line>\d{1,9}):(?P<column>\d{1,9}): runtime error: (?P<message>.*)"
)
_FRAME: Final = re.compile(r"\s{1,8}#\d{1,4} (?:0x[0-9a-fA-F]{1,16} )?(?:in )?(?P<rest>.*)")
_PLACE: Final = re.compile(r"(?P<file>[^\s:()][^:()]{0,500}):(?P<line>\d{1,9})(?::(?P<column>\d{1,9}))?$")
_NOT_THEIRS: Final = (
    "libsanitizer/",
    "compiler-rt/",
    "../sysdeps/",
    "../csu/",
    "/usr/include/",
    "/include/c++/",
    "../nptl/",
)
_TOOLS: Final = {"Address": "asan", "HWAddress": "hwasan", "Leak": "lsan", "Memory": "msan", "Thread": "tsan"}
_IN_MODULE: Final = re.compile(r" \([^()\s]{1,500}\+0x[0-9a-fA-F]{1,16}\)(?: \(BuildId: \w{1,80}\))?$")
"""What ThreadSanitizer writes behind a place."""
_AT: Final = re.compile(r" (?:on address |at pc |\(pc |\(pid=|at 0x)")
_FRAMES: Final = 60
"""Lines of a report in which the place is looked for."""


class SanitizerParser(Parser):
    """``==1==ERROR: AddressSanitizer: heap-buffer-overflow on …`` at the first frame of the user's own."""

    signs = ("Sanitizer", "runtime error: ")
    precedence = 2

    def __init__(self) -> None:
        super().__init__()
        self._report: Finding | None = None
        self._waited = 0

    def feed(self, line: Line) -> bool:
        found = _REPORT.match(line.text)
        if found is not None:
            kind = _AT.split(found["message"], maxsplit=1)[0].strip()
            message = re.split(r" at pc | \(pc | \(pid=", found["message"], maxsplit=1)[0].strip()
            self._report = Finding(
                _TOOLS[found["name"]], "error", "crash", message, line.number, code=kind or None
            )
            self.findings.append(self._report)
            self._waited = 0
            return True
        undefined = _UNDEFINED.match(line.text)
        if undefined is not None:
            self.findings.append(
                Finding(
                    "ubsan",
                    "error",
                    "crash",
                    undefined["message"].strip(),
                    line.number,
                    file=undefined["file"],
                    line=int(undefined["line"]),
                    column=int(undefined["column"]),
                )
            )
        if self._report is not None:
            self._below(self._report, line.text)
        return self._report is not None

    def _below(self, report: Finding, text: str) -> None:
        self._waited += 1
        frame = _FRAME.match(text)
        if frame is not None:
            self._frame(report, frame["rest"].strip())
        elif text.startswith("SUMMARY: ") or self._waited > _FRAMES:
            self._report = None
        elif text.startswith(
            (
                "READ of size",
                "WRITE of size",
                "Direct leak of",
                "  Write of size",
                "  Read of size",
                "0x",
                "SCARINESS",
            )
        ):
            report.note(text.strip())

    def _frame(self, report: Finding, rest: str) -> None:
        if report.line is not None:
            return
        in_module = _IN_MODULE.search(rest)
        if in_module is not None:
            rest = rest[: in_module.start()]
        function, _, last = rest.rpartition(" ")
        place = _PLACE.match(last)
        if place is None or any(part in place["file"] for part in _NOT_THEIRS):
            return
        report.file, report.line = place["file"], int(place["line"])
        report.column = int(place["column"]) if place["column"] else None
        report.function = function.strip() or None


_MARGIN: Final = "========= "
_ACCESS: Final = re.compile(
    r"Invalid (?P<what>__\w{1,20}__ (?:read|write|atomic)|[\w ]{1,60}) of size \d{1,9} bytes"
    r"|(?:Race reported|Potential|Uninitialized|Error:|Program hit|Barrier error|Leaked) .*"
)
_DEVICE_AT: Final = re.compile(
    r" {4}at (?:0x[0-9a-fA-F]{1,16} in )?(?:(?P<function>.{1,500}?)\+0x[0-9a-fA-F]{1,16} in )?"
    r"(?P<file>[^\s:]{1,500}):(?P<line>\d{1,9})(?::(?P<after>.{1,500}))?$"
)


class ComputeSanitizerParser(Parser):
    """``========= Invalid __global__ write of size 4 bytes`` and ``at kernel(…)+0x70 in file.cu:5``."""

    signs = (_MARGIN,)

    def __init__(self) -> None:
        super().__init__()
        self._report: Finding | None = None

    def feed(self, line: Line) -> bool:
        text = line.text
        if not text.startswith(_MARGIN):
            return self._report is not None
        body = text[len(_MARGIN) :].rstrip()
        if _ACCESS.match(body):
            self._report = Finding("compute-sanitizer", "error", "crash", body, line.number)
            self.findings.append(self._report)
        elif not body:
            self._report = None
        elif self._report is not None:
            place = _DEVICE_AT.match(body)
            if place is not None and self._report.line is None:
                self._report.file, self._report.line = place["file"], int(place["line"])
                self._report.function = place["function"] or place["after"]
            elif body.startswith("    "):
                self._report.note(body.strip())
        return False
