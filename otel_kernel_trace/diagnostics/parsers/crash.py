"""Programs that die: what CPython, the C library and shells say, and exit statuses that name a signal.

https://docs.python.org/3/library/faulthandler.html https://man7.org/linux/man-pages/man7/signal.7.html
https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.exceptions import said
from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.frames import Frame, users
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of

_FATAL: Final = re.compile(r"Fatal Python error: (?P<message>.*)")
_TIMEOUT: Final = re.compile(
    r"Timeout \((?P<hours>\d{1,4}):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d{1,6})?)\)!$"
)
_FRAME: Final = re.compile(
    r" {2}File \"(?P<file>[^\"\n]{1,1000})\", line (?P<line>\d{1,9}) in (?P<function>.{1,500})"
)
_FRAMES: Final = 200
"""Lines of a stack of faulthandler's that are looked at; it writes a hundred frames of each thread."""

_SIGNALS: Final = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}
_WORDS: Final = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Killed": "SIGKILL",
    "Bus error": "SIGBUS",
    "Floating point exception": "SIGFPE",
    "Illegal instruction": "SIGILL",
}
_KILLED: Final = "often the kernel's out-of-memory killer"
_ALONE: Final = re.compile(
    r"(?:\S{1,200}: line \d{1,9}: +\d{1,10} )?(?P<word>"
    + "|".join(_WORDS)
    + r")(?: {0,30}\(core dumped\))?(?:  .{0,500})?$"
)
_STATUS: Final = re.compile(
    r"\b(?:exit(?:ed)?(?: with)?(?: (?:code|status|value))?|return(?:ed)?(?: with)? code"
    r"|returned non-zero exit (?:status|code)|exitcode"
    r"|returncode)\s?[:=]?\s?(?P<status>-?\d{1,3})(?!\d)",
    re.IGNORECASE,
)
_DIED: Final = re.compile(
    r"(?:died with <Signals\.(?P<name>SIG[A-Z]{2,10})|(?:[Cc]aught|[Rr]eceived|by|on) signal:? "
    r"(?P<number>\d{1,2})\b|\*\*\* (?P<absl>SIG[A-Z]{2,10}) received)"
)
_ASSERTION: Final = re.compile(
    r"(?:[^\s:]{1,300}: )?(?P<file>[^\s:]{1,500}):(?P<line>\d{1,9}): "
    r"(?P<function>[^\n]{1,500}?): Assertion [`'‘](?P<what>[^\n]{1,1000})['’] failed\.$"
)
_HEAP: Final = re.compile(
    r"(?:double free or corruption|free\(\): |malloc\(\): |malloc_consolidate\(\): "
    r"|corrupted size vs|munmap_chunk\(\)|\*\*\* stack smashing detected"
    r"|corrupted double-linked list|realloc\(\): invalid)"
)
_TERMINATE: Final = ("terminate called after ", "terminate called without ", "terminate called recursively")


class FaulthandlerParser(Parser):
    """``Fatal Python error: Segmentation fault``, ``Timeout (0:00:18)!``, and the stack below it."""

    signs = ("Fatal Python error: ", "Timeout (")
    precedence = 2

    def __init__(self) -> None:
        super().__init__()
        self._fatal: Finding | None = None
        self._frames: list[Frame] = []
        self._waited = 0

    def feed(self, line: Line) -> bool:
        begun = _begun(line)
        if begun is not None:
            self.finish()
            self._fatal = begun
            self.findings.append(begun)
            self._waited = 0
            return True
        frame = _FRAME.match(line.text)
        if frame is not None:
            self._frames.append(Frame(frame["file"], int(frame["line"]), frame["function"].strip()))
        self._waited += 1
        if self._waited > _FRAMES or (self._frames and not line.text.strip()):
            self.finish()
        return self._fatal is not None

    def finish(self) -> None:
        frame = users(self._frames[::-1])
        if self._fatal is not None and frame is not None:
            self._fatal.file, self._fatal.line, self._fatal.function = frame
        self._fatal = None
        self._frames.clear()


def _begun(line: Line) -> Finding | None:
    fatal, late = _FATAL.match(line.text), _TIMEOUT.match(line.text.rstrip())
    if fatal is not None:
        message = fatal["message"].strip()
        return Finding("python", "error", "crash", message, line.number, code=_WORDS.get(message))
    if late is None:
        return None
    seconds = int(late["hours"]) * 3600 + int(late["minutes"]) * 60 + float(late["seconds"])
    return Finding("python", "error", "timeout", line.text.strip(), line.number, figures={"seconds": seconds})


class CrashParser(Parser):
    """``Segmentation fault (core dumped)``, failed assertions of C, ``exit code 139``."""

    signs = (
        *_WORDS,
        "xit",
        "return code",
        "returncode",
        "ignal",
        "*** SIG",
        ": Assertion ",
        *_TERMINATE,
        "what():",
        "free()",
        "double free",
        "malloc",
        "corrupted ",
        "munmap_chunk",
        "stack smashing",
    )

    def __init__(self) -> None:
        super().__init__()
        self._terminated: Finding | None = None

    def feed(self, line: Line) -> bool:
        text = line.text.rstrip()
        alone = _ALONE.match(text)
        if alone is not None:
            self._crash(f"{alone['word']}", _WORDS[alone["word"]], line.number)
        elif ": Assertion " in text:
            self._assertion(text, line.number)
        elif text.startswith(_TERMINATE):
            self._terminated = Finding("c++", "error", "crash", text, line.number, code="SIGABRT")
            self.findings.append(self._terminated)
            return True
        elif "what():" in text and self._terminated is not None:  # whoever knows what it says has it
            self._terminated.message = said(text).message or self._terminated.message
            self._terminated.log_line = line.number
            if category_of(self._terminated.message) == "out_of_memory":
                self._terminated.category = "out_of_memory"
        elif _HEAP.match(text):
            self._crash(text, "SIGABRT", line.number)
        else:
            self._status(text, line.number)
        self._terminated = None
        return False

    def _assertion(self, text: str, number: int) -> None:
        found = _ASSERTION.match(text)
        if found is not None:
            self._crash(f"Assertion '{found['what']}' failed.", "SIGABRT", number)
            finding = self.findings[-1]
            finding.file, finding.line, finding.function = (
                found["file"],
                int(found["line"]),
                found["function"],
            )

    def _status(self, text: str, number: int) -> None:
        died = _DIED.search(text)
        if died is not None:
            name = died["name"] or died["absl"] or _SIGNALS.get(int(died["number"] or 0))
        else:
            found = _STATUS.search(text)
            status = int(found["status"]) if found is not None else 0
            if status == 124:
                self.findings.append(
                    Finding("shell", "error", "timeout", text.strip(), number, code="124", consequence=True)
                )
                return
            name = _SIGNALS.get(status - 128 if status > 128 else -status)
        if name is not None and name != "SIGTERM":
            self._crash(said(text).message, name, number)
            self.findings[-1].consequence = True

    def _crash(self, message: str, name: str, number: int) -> None:
        finding = Finding(
            "shell" if name != "SIGABRT" else "libc", "error", "crash", message, number, code=name
        )
        if name == "SIGKILL":
            finding.note(_KILLED)
        self.findings.append(finding)
