"""Time-outs, whoever sets the clock: subprocess, asyncio, pytest-timeout, GNU timeout, NCCL, Slurm.

https://docs.python.org/3/library/subprocess.html#subprocess.TimeoutExpired
https://www.gnu.org/software/coreutils/manual/html_node/timeout-invocation.html
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.exceptions import said
from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser

_AFTER: Final = re.compile(
    r"timed out after (?P<seconds>\d{1,9}(?:\.\d{1,9})?) ?(?P<unit>s|sec|seconds|ms|milliseconds"
    r"|minutes|min)\b"
)
_SAYS: Final = re.compile(
    r"(?:timeout: sending signal |Command .* timed out|(?:\w{1,40} ){0,6}timed out|Timeout >"
    r"|.*Watchdog caught collective operation timeout|.*DUE TO TIME LIMIT|Timeout expired"
    r"|Kernel execution timed out)"
)
_UNITS: Final = {"ms": 0.001, "milliseconds": 0.001, "minutes": 60.0, "min": 60.0}
_TYPES: Final = ("TimeoutExpired", "TimeoutError", "Timeout")


class TimeoutParser(Parser):
    """``subprocess.TimeoutExpired: Command '…' timed out after 60 seconds``."""

    signs = ("timed out", "imeout", "DUE TO TIME LIMIT")

    def feed(self, line: Line) -> bool:
        if line.text.startswith((" ", "\t")):
            return False
        stated = said(line.text.removeprefix("Failed: ").rstrip(":"))
        name = (stated.type or stated.message).rpartition(".")[2]
        after = _AFTER.search(stated.message)
        if name not in _TYPES and not _SAYS.match(stated.message):
            return False
        finding = Finding(
            "python" if name in _TYPES else "timeout", "error", "timeout", stated.message or name, line.number
        )
        finding.code = name if name in _TYPES else None
        if after is not None:
            finding.figures = {"seconds": float(after["seconds"]) * _UNITS.get(after["unit"], 1.0)}
        self.findings.append(finding)
        return False
