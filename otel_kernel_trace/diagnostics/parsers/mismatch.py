"""Comparisons that fail: NumPy's and PyTorch's reports.

https://numpy.org/doc/stable/reference/generated/numpy.testing.assert_allclose.html
https://pytorch.org/docs/stable/testing.html
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.model import Category
from otel_kernel_trace.diagnostics.parser import Parser

_NUMBER: Final = (
    r"(?P<number>[-+]?(?:\d[\d.]{0,400}(?:[eE][-+]?\d{1,5})?|\.\d{1,400}(?:[eE][-+]?\d{1,5})?|inf|nan))"
)
_ELEMENTS: Final = re.compile(r"Mismatched elements: (?P<mismatched>\d{1,18}) / (?P<total>\d{1,18})")
_DIFFERENCE: Final = re.compile(
    r"(?:Max|Greatest)?(?: ?)(?P<kind>[Aa]bsolute|[Rr]elative) difference(?: among violations)?: " + _NUMBER
)
_ALLOWED: Final = re.compile(r"\(up to " + _NUMBER.replace("number", "allowed") + r" allowed\)")
_TOLERANCE: Final = re.compile(r"(?P<kind>rtol|atol)=" + _NUMBER)
_SHAPES: Final = re.compile(r"\(shapes .{1,300} mismatch\)|attribute 'shape'|size mismatch")
_NUMPY: Final = (
    "Not equal to tolerance",
    "Arrays are not ",
    "Items are not equal",
    "Mismatch in",
    "x and y nan location mismatch",
    "Arrays are not almost equal",
)
_TORCH: Final = (
    "Tensor-likes are not ",
    "Scalars are not ",
    "The values for attribute ",
    "Booleans mismatch",
    "Object comparison failed",
)
_ASSERTION: Final = re.compile(r"(?:\w{1,60}\.){0,6}AssertionError:(?: (?P<message>.*))?$")
_WAITS: Final = 60
"""Lines of a report that are read."""


class MismatchParser(Parser):
    """``Mismatched elements: 16 / 16 (100%)`` and what stands around it, as one finding."""

    signs = (
        "AssertionError",
        "ismatch",
        "s are not ",
        "Not equal to tolerance",
        "The values for attribute ",
        "Object comparison failed",
    )
    precedence = 2

    def __init__(self) -> None:
        super().__init__()
        self._asserted: Line | None = None
        self._report: Finding | None = None
        self._waited = 0

    def feed(self, line: Line) -> bool:
        text = line.text.strip()
        assertion = _ASSERTION.match(text)
        if assertion is not None:
            self._report = None
            self._asserted, self._waited = line, 0
            text = (assertion["message"] or "").strip()
            if not text:
                return True
        self._waited += 1
        if self._waited > _WAITS or text.startswith("Traceback "):
            self._report = self._asserted = None
            return False
        self._read(text, line)
        return self._report is not None or (self._asserted is not None and self._waited < 4)

    def _read(self, text: str, line: Line) -> None:
        tool = "numpy" if text.startswith(_NUMPY) else "pytorch" if text.startswith(_TORCH) else None
        elements = _ELEMENTS.match(text)
        if tool is not None and self._report is None:
            self._begin(tool, text, line)
        elif elements is not None and self._report is None and int(elements["mismatched"]):
            self._begin("numpy", text, line)
        if self._report is None:
            return
        if elements is not None:
            mismatched, total = int(elements["mismatched"]), int(elements["total"])
            self._report.figures |= {"mismatched": float(mismatched), "total": float(total)}
            if total:
                self._report.figures["share"] = mismatched / total
            if self._report.message != text:  # how much is wrong says more than that something is
                self._report.note(self._report.message)
                self._report.message = text
        elif "ifference" in text:
            self._difference(self._report, text)
        elif _SHAPES.search(text):
            self._report.category = "shape"
            self._report.note(text)

    def _begin(self, tool: str, text: str, line: Line) -> None:
        category: Category = (
            "shape" if _SHAPES.search(text) else "type" if "attribute 'dtype'" in text else "numeric_mismatch"
        )
        begins = self._asserted.number if self._asserted is not None else line.number
        self._report = Finding(
            tool, "error", category, text, begins, code="AssertionError" if self._asserted else None
        )
        self._asserted = None
        self._waited = 0
        for found in _TOLERANCE.finditer(text):
            self._report.figures[found["kind"]] = _float(found["number"])
        self.findings.append(self._report)

    def _difference(self, report: Finding, text: str) -> None:
        found = _DIFFERENCE.match(text)
        if found is None:
            return
        kind = found["kind"].lower()
        report.figures[f"max_{kind}_difference"] = _float(found["number"])
        allowed = _ALLOWED.search(text)
        if allowed is not None:
            report.figures["atol" if kind == "absolute" else "rtol"] = _float(allowed["allowed"])


def _float(text: str) -> float:
    """NumPy ends whole numbers with a point, and a sentence may, too."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
