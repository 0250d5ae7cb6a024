"""ninja, make and CMake: what they say of the commands that they run.

https://ninja-build.org/manual.html https://www.gnu.org/software/make/manual/html_node/Error-Messages.html
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of

_FAILED: Final = re.compile(r"FAILED: (?:\[code=(?P<code>-?\d{1,9})\] )?(?P<target>[^\s:][^:\n]*)$")
_NINJA: Final = re.compile(r"ninja: (?P<kind>error|fatal|warning|build stopped): (?P<message>.*)")
_MAKE: Final = re.compile(
    r"(?P<make>g?make)(?:\[\d{1,5}\])?: \*\*\* (?:\[(?P<target>[^\n]*)\] )?(?P<message>.*)"
)
_CMAKE: Final = re.compile(
    r"CMake (?P<kind>Error|Warning)(?: \([\w-]{1,40}\))?(?: at (?P<file>[^:\n]{1,500}):"
    r"(?P<line>\d{1,9}) \((?P<function>\w{1,100})\))?:(?P<message>.*)$"
)
_COMMAND_FAILED: Final = re.compile(
    r"Error -?\d|Segmentation|Killed|Aborted|Waiting for unfinished|Deleting file"
)


class NinjaParser(Parser):
    """``FAILED: target`` and ``ninja: build stopped: …`` follow from what the command itself said."""

    signs = ("FAILED: ", "ninja: ")

    def feed(self, line: Line) -> bool:
        failed = _FAILED.match(line.text.rstrip())
        if failed is not None:
            target = failed["target"].strip()
            self.findings.append(
                Finding(
                    "ninja",
                    "error",
                    "other",
                    f"FAILED: {target}",
                    line.number,
                    identifier=target,
                    consequence=True,
                )
            )
            return False
        found = _NINJA.match(line.text)
        if found is not None:
            message = found["message"].strip()
            stopped = found["kind"] == "build stopped"
            self.findings.append(
                Finding(
                    "ninja",
                    "warning" if found["kind"] == "warning" else "error",
                    "other" if stopped else category_of(message),
                    f"build stopped: {message}" if stopped else message,
                    line.number,
                    consequence=stopped,
                )
            )
        return False


class MakeParser(Parser):
    """``make: *** [Makefile:3: x.o] Error 1``."""

    signs = ("make: *** ", "]: *** ")

    def feed(self, line: Line) -> bool:
        found = _MAKE.match(line.text)
        if found is not None:
            message = found["message"].strip()
            target = found["target"]
            self.findings.append(
                Finding(
                    "make",
                    "error",
                    category_of(message),
                    f"[{target}] {message}" if target else message,
                    line.number,
                    identifier=target.rpartition(": ")[2] if target else None,
                    consequence=bool(_COMMAND_FAILED.match(message)),
                )
            )
        return False


class CMakeParser(Parser):
    """``CMake Error at CMakeLists.txt:3 (find_package):`` and the paragraph below it."""

    signs = ("CMake Error", "CMake Warning")

    def __init__(self) -> None:
        super().__init__()
        self._headed: Finding | None = None

    def feed(self, line: Line) -> bool:
        found = _CMAKE.match(line.text)
        if found is not None:
            message = found["message"].strip()
            finding = Finding(
                "cmake",
                "warning" if found["kind"] == "Warning" else "error",
                category_of(message),
                message or f"CMake {found['kind']}",
                line.number,
                file=found["file"],
                line=int(found["line"]) if found["line"] else None,
                function=found["function"],
            )
            self.findings.append(finding)
            self._headed = None if message else finding
        elif self._headed is not None and line.text.startswith("  "):
            self._headed.message = line.text.strip()
            self._headed.category = category_of(self._headed.message)
            self._headed = None
        elif line.text.strip():
            self._headed = None
        return self._headed is not None
