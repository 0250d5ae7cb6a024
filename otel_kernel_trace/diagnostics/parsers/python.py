"""Python's tracebacks, chained and grouped ones too.

https://docs.python.org/3/library/traceback.html
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from otel_kernel_trace.diagnostics.exceptions import Said, exception_line
from otel_kernel_trace.diagnostics.finding import Raised
from otel_kernel_trace.diagnostics.frames import Frame, users
from otel_kernel_trace.diagnostics.lines import LONGEST, Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of, identifier_of

_HEAD: Final = "Traceback (most recent call last)"
_CAUSE: Final = "The above exception was the direct cause of the following exception"
_CONTEXT: Final = "During handling of the above exception, another exception occurred"
_FRAME: Final = re.compile(
    r"\s{1,8}File \"(?P<file>[^\"\n]{1,1000})\", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,500}))?$"
)
_REPEATED: Final = re.compile(r"\s*\[Previous line repeated \d{1,9} more times?\]")
_CARET: Final = re.compile(r" {4,}\^+$")
_SHOWN_INDENT: Final = 4
_SYNTAX: Final = ("SyntaxError", "IndentationError", "TabError")
_BUILTIN: Final = re.compile(
    r"[A-Z]\w*(?:Error|Exception|Warning|Exit|Interrupt|Iteration|Group)$|[A-Z][a-z0-9]+[A-Z]\w*$"
)
_LOWER_CASE: Final = ("timeout", "error", "gaierror", "herror")
_NAMED: Final = ("Error", "Exception")
_PYTEST: Final = re.compile(r"(?P<file>[^\s:]{1,500}\.py):(?P<line>\d{1,9}): (?P<type>[A-Z]\w{1,100})(?:$|:)")
_PYTEST_FRAME: Final = re.compile(
    r"(?P<file>[^\s:]{1,500}\.py):(?P<line>\d{1,9}): in (?P<function>.{1,500})$"
)
_PYTEST_FRAMES: Final = 100
"""Frames of ``pytest --tb=short`` that are kept, the innermost."""
_MESSAGE_LINES: Final = 2
"""Lines after one that names an exception in which another name belongs to its message."""
_STRANGE_LINES: Final = 400
"""Lines of others in the middle of a traceback after which the rest of it is not waited for."""

_WRAPPERS: Final = (
    "CalledProcessError",
    "MLIRCompilationError",
    "CompileError",
    "ChildFailedError",
    "BrokenProcessPool",
    "SystemExit",
    "BuildError",
    "PTXASError",
)
_WRAPPING: Final = (
    "error building extension",
    "error compiling objects",
    "compilation failed",
    "compile failed",
    "failed to compile",
    "compilation error",
    "compile error",
    "build failed",
    "failed to build",
    "failed to run",
    "non-zero exit status",
    "non-zero exit code",
    "ninja",
    "nvcc",
    "ptxas",
    "passmanager::run failed",
    "see the above",
    "see above",
)


class _Traceback:
    """One that is being read."""

    __slots__ = ("begins", "caret", "frames", "is_group", "margin", "notes", "strange", "tentative")

    def __init__(self, begins: int, margin: str, is_group: bool = False, tentative: bool = False) -> None:
        self.begins = begins
        self.margin = margin
        self.is_group = is_group
        self.tentative = tentative
        """Whether only a syntax error would make it one."""
        self.frames: list[Frame] = []
        self.caret: int | None = None
        self.notes: list[str] = []
        self.strange = 0

    def body(self, text: str) -> str | None:
        """A line without the margin of its traceback; None where it has another one."""
        if not self.margin:
            return text
        if text.startswith(self.margin):
            return text[len(self.margin) :]
        return None if text.strip() else ""


class PythonParser(Parser):
    """A traceback is located at the last frame in the user's own code.

    The column of a syntax error is that in the line as Python shows it, without its indentation.
    """

    signs = (_HEAD, 'File "', "he above exception", *(f"{name}: " for name in _NAMED), ".py:", "E   ")

    def __init__(self) -> None:
        super().__init__()
        self._open: _Traceback | None = None
        self._chain = 0
        self._link: str | None = None
        self._last: Raised | None = None
        self._pytest: deque[Frame] = deque(maxlen=_PYTEST_FRAMES)

    def feed(self, line: Line) -> bool:
        text = line.text
        head = text.find(_HEAD)
        if head >= 0:
            if head == 0 and self._open is not None and not self._open.frames and not self._open.margin:
                self._open.begins = line.number  # the one before has not even begun
                return True
            if self._open is not None and self._open.frames and _names_an_exception(text[:head]):
                self._open.strange = 0  # what TVM raises tells its own stack, then itself
                return True
            self._cut()
            self._open = _begun(text[:head], line.number)
            return True
        if self._open is None:
            return self._between(line)
        if self._open.tentative and line.log.startswith("E   ", line.start):
            text = line.log[line.start + 4 : min(line.end, line.start + LONGEST)]  # with its indentation
        self._inside(self._open, text, line.number)
        return self._open is not None

    def finish(self) -> None:
        self._cut()

    def _between(self, line: Line) -> bool:
        text = line.text
        if _CAUSE in text or _CONTEXT in text:
            self._link = _CAUSE if _CAUSE in text else _CONTEXT
            return False
        found = _FRAME.match(text)
        if found is None:
            self._bare(line)
        elif found["function"] is None:  # a syntax error that is reported without a traceback
            self._open = _Traceback(line.number, "", tentative=True)
            self._open.frames.append(_frame(found))
        return self._open is not None

    def _bare(self, line: Line) -> None:
        """An exception without its traceback, and where pytest says that it came from."""
        raised = exception_line(line.text)
        last = self._last
        is_in_message = last is not None and 0 < line.number - last.raised_at <= _MESSAGE_LINES
        if raised is None:
            place = _PYTEST.match(line.text)
            if place is not None and last is not None and last.file is None and last.code == place["type"]:
                last.file, last.line = place["file"], int(place["line"])
            frame = _PYTEST_FRAME.match(line.text)
            if frame is not None:
                self._pytest.append(_frame(frame))
            elif (
                not is_in_message
                and line.text.startswith("assert ")
                and line.log.startswith("E ", line.start)
            ):
                self._told_by_pytest(Said("AssertionError", line.text.strip()), line)
            return
        is_named = (raised.type or "").endswith(_NAMED) and _is_exception(raised)
        if is_in_message and not line.log.endswith("\n\n", 0, line.start):
            return
        if is_named and (raised.message or line.log.startswith("E ", line.start)):
            self._told_by_pytest(raised, line)

    def _told_by_pytest(self, raised: Said, line: Line) -> None:
        """An exception by itself: with ``--tb=short`` its frames stand before it."""
        traceback = _Traceback(line.number, "")
        if line.log.startswith("E ", line.start):
            traceback.frames.extend(self._pytest)
        self._pytest.clear()
        self._raised(traceback, raised, line.number)

    def _inside(self, traceback: _Traceback, text: str, number: int) -> None:
        body = traceback.body(text)
        if body is None:
            self._strange(traceback)
            return
        found = _FRAME.match(body)
        if found is not None:
            traceback.frames.append(_frame(found))
            traceback.strange = 0
            traceback.caret = None
        elif body.startswith("    "):
            caret = _CARET.match(body)
            if caret is not None:
                traceback.caret = body.index("^") - _SHOWN_INDENT + 1
        elif _REPEATED.match(body):
            traceback.notes.append(body.strip())
        else:
            raised = exception_line(body)
            if raised is not None and _is_exception(raised):
                self._raised(traceback, raised, number)
            else:
                self._strange(traceback)

    def _strange(self, traceback: _Traceback) -> None:
        traceback.strange += 1
        if traceback.tentative:
            self._open = None
        elif traceback.strange > _STRANGE_LINES:
            self._cut()

    def _cut(self) -> None:
        """The traceback ends without naming the exception."""
        traceback, self._open = self._open, None
        if traceback is not None and traceback.frames and not traceback.tentative:
            self._keep(traceback, Raised("python", "error", "other", _HEAD, traceback.begins))

    def _raised(self, traceback: _Traceback, raised: Said, number: int) -> None:
        self._open = None
        code = (raised.type or "").rpartition(".")[2]
        is_syntax = code in _SYNTAX
        if traceback.tentative and not is_syntax:
            return
        message = raised.message or code
        finding = Raised(
            "python",
            "error",
            category_of(raised.message, code),
            message,
            traceback.begins,
            identifier=None if is_syntax else identifier_of(message),
            code=code,
            raised_at=number,
            consequence=traceback.is_group
            or code in _WRAPPERS
            or any(sign in message.lower() for sign in _WRAPPING),
        )
        if is_syntax:
            finding.column = traceback.caret
        self._keep(traceback, finding)

    def _keep(self, traceback: _Traceback, finding: Raised) -> None:
        frame = users(traceback.frames, finding.code in _SYNTAX)
        if frame is not None:
            finding.file, finding.line, finding.function = frame.file, frame.line, frame.function
        for note in traceback.notes:
            finding.note(note)
        if self._link is None:
            self._chain += 1
        elif self._last is not None:
            self._last.handled = self._link is _CONTEXT
        finding.chain = self._chain
        self._link = None
        self._last = finding
        self.findings.append(finding)


def _begun(before: str, number: int) -> _Traceback:
    if before.endswith("+ Exception Group "):
        return _Traceback(number, before[: -len("+ Exception Group ")] + "| ", is_group=True)
    is_margin = not before.strip() or before.endswith("| ")
    return _Traceback(number, before if is_margin else "")


def _names_an_exception(before: str) -> bool:
    raised = exception_line(before.rstrip())
    return before.endswith(": ") and raised is not None and _is_exception(raised)


def _frame(found: re.Match[str]) -> Frame:
    return Frame(found["file"], int(found["line"]), found["function"])


def _is_exception(raised: Said) -> bool:
    """Whether a word with a colon, between other tools' lines, names an exception."""
    module, _, name = (raised.type or "").rpartition(".")
    if module:
        return name.lstrip("_")[:1].isupper() or name in _LOWER_CASE
    return bool(_BUILTIN.match(name))
