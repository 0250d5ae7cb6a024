"""What is kept of the lines that are said under one span: figures, text, and room for events."""

from __future__ import annotations

from collections import deque
from typing import Final, Literal

from otel_kernel_trace.builder.lines import BuilderLine
from otel_kernel_trace.builder.summary import BuilderSummary, Tally

MOST_BEGINNING: Final = 8 * 1024 * 1024
MOST_END: Final = 24 * 1024 * 1024
"""Characters of a log that are kept from its beginning and from its end."""
_CHUNK = 64 * 1024
_LONGEST_LINE = 1024 * 1024

Group = Literal["error", "warning", "refused", "layers", "memory", "outcome", "decision", "said", "ordinary"]

_GROUPS: Final[dict[str | None, Group]] = {
    "fusion_refused": "refused",
    "layers": "layers",
    "memory": "memory",
    "engine_time": "outcome",
    "no_implementation": "outcome",
    "version": "outcome",
    "precision": "outcome",
    "fusion_made": "decision",
    "tactic_chosen": "decision",
    "tactic_skipped": "decision",
}
_NOTABLE: Final[tuple[Group, ...]] = (
    "error",
    "warning",
    "refused",
    "layers",
    "memory",
    "outcome",
    "decision",
    "said",
)


def group_of(line: BuilderLine) -> Group:
    """Which places for events a line may take."""
    if line.severity in ("ERROR", "INTERNAL_ERROR"):
        return "error"
    group = _GROUPS.get(line.kind)
    if group is not None:
        return group
    if line.severity == "WARNING":
        return "warning"
    return "said" if line.severity == "INFO" else "ordinary"


class Room:
    """Places for events. A span drops its oldest events at a limit, so there are never more.

    A tenth is kept free for each group of notable lines, however many of the others there
    are; the rest goes to those that come first, of which ordinary ones get a tenth at most.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        tenth = max(places // 10, 1)
        self._reserved = dict.fromkeys(_NOTABLE, tenth)
        self._ordinary = tenth

    def takes(self, group: Group) -> bool:
        """Whether there is a place; it is taken then."""
        kept = sum(self._reserved.values())
        if group == "ordinary":
            if self._ordinary <= 0 or self._free <= kept:
                return False
            self._ordinary -= 1
        elif self._reserved[group]:
            if self._free <= 0:  # fewer places than groups
                return False
            self._reserved[group] -= 1
        elif self._free <= kept:
            return False
        self._free -= 1
        return True


class LogText:
    """A text that grows by lines: whole up to a limit, then its beginning and its end.

    Memory is bounded and no line is copied more than twice.
    """

    def __init__(self, most_beginning: int = MOST_BEGINNING, most_end: int = MOST_END) -> None:
        self._beginning_left = most_beginning
        self._most_end = most_end
        self._beginning: list[str] = []
        self._end: deque[tuple[str, int]] = deque()
        self._end_chars = 0
        self._chunk: list[str] = []
        self._chunk_chars = 0
        self._cut_lines = self._cut_chars = 0

    def add(self, line: str) -> None:
        """Add a line; its end is put behind it."""
        self._chunk.append(line)
        self._chunk_chars += len(line) + 1
        if self._chunk_chars >= _CHUNK:
            self._put_away()

    def text(self) -> str:
        """All that there is, with a mark where something was cut."""
        self._put_away()
        cut = f"[… {self._cut_lines} lines of {self._cut_chars} characters are cut here …]\n"
        parts = [*self._beginning, *([cut] if self._cut_lines else []), *(text for text, _ in self._end)]
        return "".join(parts)

    def _put_away(self) -> None:
        if not self._chunk:
            return
        text, lines = "\n".join(self._chunk) + "\n", len(self._chunk)
        self._chunk, self._chunk_chars = [], 0
        if len(text) <= self._beginning_left and not self._end:
            self._beginning.append(text)
            self._beginning_left -= len(text)
            return
        self._end.append((text, lines))
        self._end_chars += len(text)
        while self._end_chars > self._most_end and len(self._end) > 1:
            dropped, lines = self._end.popleft()
            self._end_chars -= len(dropped)
            self._cut_lines += lines
            self._cut_chars += len(dropped)


Event = dict[str, str | int | float]


class Book:
    """All that is kept of the lines under one span. Not thread-safe."""

    def __init__(self, places: int) -> None:
        self._tally = Tally()
        self.log = LogText()
        self.room = Room(places)
        self.waiting: list[tuple[Event, int]] = []
        """Events, with their times, for which there was no span yet; no more than the places."""

    def add(self, line: BuilderLine, *, is_kept: bool = True) -> None:
        """Count a line, and keep its text."""
        self._tally.add(line)
        if not is_kept:
            return
        message = line.message
        if len(message) > _LONGEST_LINE:
            left_out = len(message) - _LONGEST_LINE
            message = f"{message[:_LONGEST_LINE]} [… {left_out} characters are cut here …]"
        self.log.add(f"[{_LETTERS[line.severity]}] {message}")

    def summary(self) -> BuilderSummary:
        """The figures so far."""
        return self._tally.summary()


_LETTERS: Final = {"INTERNAL_ERROR": "F", "ERROR": "E", "WARNING": "W", "INFO": "I", "VERBOSE": "V"}
