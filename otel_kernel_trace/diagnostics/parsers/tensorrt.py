"""TensorRT's errors and warnings, by the prefixes of its versions.

``[TensorRT] ERROR: …`` (7), ``[11/20/2026-10:00:00] [TRT] [E] …`` (Python),
``[11/20/2026-10:00:00] [E] [TRT] …`` (trtexec): https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/troubleshooting.html
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.model import Severity
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of, identifier_of

_OLD: Final = re.compile(r"\[TensorRT\] (?P<severity>INTERNAL_ERROR|ERROR|WARNING): (?P<message>.*)")
_NEW: Final = re.compile(
    r"(?:\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] ?)?(?:\[TRT\] ?\[(?P<severity>[FEW])\]|\["
    r"(?P<first>[FEW])\](?P<trt> ?\[TRT\])?) ?(?P<message>.*)"
)
_CODE: Final = re.compile(r"Error Code (?P<code>\d{1,4}): ")
_PLACE: Final = re.compile(
    r"(?:(?:Error)?\[?\d{1,4}\]?: )?(?:\[(?P<file>[\w./+-]{1,200}\.\w{1,5})::"
    r"(?P<function>[\w:~<>]{1,200})::(?P<line>\d{1,9})\] )?"
)
_NOTHING: Final = "no further information"
_NODE: Final = re.compile(
    r"(?:for node|[Nn]ode:|for [Ll]ayer|[Ll]ayer:|for tensor|[Tt]ensor:) "
    r"(?P<name>\{[^\n]{1,500}\}|[^\s,]{1,300})"
)


class TensorRtParser(Parser):
    """``[TRT] [E] 10: [optimizer.cpp::computeCosts::3728] Error Code 10: Internal Error (…)``."""

    signs = ("[TensorRT] ", "[TRT]", "[E] ", "[W] ", "[F] ")
    precedence = 2

    def feed(self, line: Line) -> bool:
        start = max(line.text.find("["), 0)
        found = _OLD.match(line.text, start) or _NEW.match(line.text, start)
        if found is None:
            return False
        named = found.groupdict()
        letter = named["severity"] or named.get("first") or ""
        has_date = line.text.startswith("[", start) and line.text[start + 1 : start + 2].isdigit()
        if not named["severity"] and not named.get("trt") and not has_date:
            return False  # [E] of another logger
        severity: Severity = "warning" if letter.startswith("W") else "error"
        self._found(severity, found["message"].strip(), line.number)
        return False

    def _found(self, severity: Severity, message: str, number: int) -> None:
        place = _PLACE.match(message)
        assert place is not None  # all of it is optional
        text = message[place.end() :] or message
        code = _CODE.match(text)
        if code is not None:
            kind, text = text[code.end() :], _inner(text[code.end() :])
            text = kind if text == _NOTHING else text
        node = _NODE.search(text)
        self.findings.append(
            Finding(
                "tensorrt",
                severity,
                category_of(text),
                text,
                number,
                file=place["file"],
                line=int(place["line"]) if place["line"] else None,
                identifier=node["name"].rstrip(".)") if node is not None else identifier_of(text),
                code=f"Error Code {code['code']}" if code is not None else None,
                function=place["function"],
            )
        )


def _inner(text: str) -> str:
    """``Internal Error (message)``: the message."""
    kind, bracket, rest = text.partition(" (")
    return (
        rest.rstrip().removesuffix(")").rstrip()
        if bracket and rest.rstrip().endswith(")") and len(kind) < 60
        else text
    )
