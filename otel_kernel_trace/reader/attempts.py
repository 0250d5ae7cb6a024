"""The attempts at a kernel, and how one became the next. Pure functions but for reading texts."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from otel_kernel_trace.actions import Agent
from otel_kernel_trace.attributes import RESULT
from otel_kernel_trace.reader.model import Action, Task
from otel_kernel_trace.reader.tree import Tree

MAX_CODE_BYTES = 4_000_000
"""Of a longer code the rest is not compared: comparing takes more than linear time."""

_COMMENT = "\n\n\n'''\n"
_COMMENT_END = "\n'''"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A Coder's action, and what came of it."""

    action: Action
    verification: Action | None
    """The last one before the next attempt; None where there was none."""

    @property
    def step(self) -> int:
        """The Coder's step."""
        return self.action.step

    @property
    def passed(self) -> bool | None:
        """The verdict; None where there is none."""
        return self.verification.passed if self.verification else None


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """A line of a kernel, and the attempt that brought it."""

    text: str
    attempt: Attempt


def attempts_of(task: Task) -> list[Attempt]:
    """The attempts of a task, in order.

    They are what its Coders did, and have ended; where it has none, what agents of the program's own did that
    have a result.
    """
    done = [action for action in task.actions if not action.is_pending]
    writers = [action for action in done if action.agent is Agent.CODER]
    if not writers:
        writers = [action for action in done if action.agent is None and RESULT in action.parts]
    verifications = [action for action in done if action.agent is Agent.VERIFIER]
    attempts = []
    for index, action in enumerate(writers):
        before_next = len(verifications)
        if index + 1 < len(writers):
            before_next = bisect_left(verifications, writers[index + 1].step, key=_step_of)
        last = verifications[before_next - 1] if before_next else None
        attempts.append(Attempt(action, last if last is not None and last.step > action.step else None))
    return attempts


def _step_of(action: Action) -> int:
    return action.step


def code_of(tree: Tree, attempt: Attempt) -> str:
    """The code that an attempt wrote, without the comment that stands behind it in its file.

    Raises:
        OSError: its file can't be read.
    """
    part = attempt.action.parts.get(RESULT)
    if part is None and attempt.verification is not None:
        part = attempt.verification.parts.get("source.implementation")
    if part is None:
        return ""
    text = tree.text(part, MAX_CODE_BYTES)
    code, found, _ = text.rpartition(_COMMENT)
    return code if found and text.endswith(_COMMENT_END) else text


def pair_of(attempts: Sequence[Attempt]) -> tuple[Attempt, Attempt] | None:
    """The last failed attempt before the first good one, and that one.

    Where none is good, the last two; None where there are no two.
    """
    for index, attempt in enumerate(attempts):
        if attempt.passed:
            failed = [earlier for earlier in attempts[:index] if earlier.passed is False]
            before = failed[-1] if failed else (attempts[index - 1] if index else None)
            if before is not None:
                return before, attempt
            break
    return (attempts[-2], attempts[-1]) if len(attempts) > 1 else None


def diff(before: str, after: str, before_name: str, after_name: str) -> list[str]:
    """The lines of a unified diff, without line ends; none where texts are the same."""
    return list(
        difflib.unified_diff(before.splitlines(), after.splitlines(), before_name, after_name, lineterm="")
    )


def blame(codes: Iterable[tuple[Attempt, str]]) -> list[BlamedLine]:
    """Each line of the last code, with the attempt since which it has been there."""
    lines: list[BlamedLine] = []
    for attempt, code in codes:
        new = code.splitlines()
        old = [line.text for line in lines]
        blamed = [BlamedLine(text, attempt) for text in new]
        for a, b, size in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
            blamed[b : b + size] = lines[a : a + size]
        lines = blamed
    return lines
