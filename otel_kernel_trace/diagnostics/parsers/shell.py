"""Shells that do not find a program: bash, dash, zsh.

https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser

_MISSING: Final = re.compile(
    r"(?:[^\s:]{1,300}: line \d{1,9}: (?P<bash>[^:\s]{1,300}): command not found"
    r"|(?:\S{0,300}/)?(?:sh|dash|[^\s:/]{1,100}\.sh): \d{1,9}: (?P<dash>[^:\s]{1,300}): not found"
    r"|-?bash: (?P<typed>[^:\s]{1,300}): command not found"
    r"|zsh:(?:\d{1,9}:)? command not found: (?P<zsh>\S{1,300}))$"
)


class ShellParser(Parser):
    """``bash: line 1: nvcc: command not found``, ``/bin/sh: 1: nvcc: not found``."""

    signs = (": not found", "command not found")

    def feed(self, line: Line) -> bool:
        found = _MISSING.match(line.text.rstrip())
        if found is None:
            return False
        program = next(name for name in found.groups() if name)
        self.findings.append(
            Finding(
                "shell",
                "error",
                "environment",
                f"{program}: command not found",
                line.number,
                identifier=program,
                code="127",
            )
        )
        return False
