"""The lines of a log, as parsers see them: without colours, Windows line ends and loggers' prefixes."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LONGEST: Final = 2000
"""Characters of a line that are looked at; what a compiler says of itself stands at its beginning."""

# ECMA-48 control sequences and the hyperlinks that gcc writes, https://gcc.gnu.org/onlinedocs/gcc/Diagnostic-Message-Formatting-Options.html
_COLOUR: Final = re.compile(r"\x1b(?:\[[0-9;:?]*[A-Za-z]|\]8;[^\x07\x1b\n]*(?:\x07|\x1b\\))")

# torchrun, loggers with a date, Ray and vLLM workers, pytest's explanation of an assertion. One blank at most
# is taken after each, for what follows may be a line of source with a caret below it.
_PREFIX: Final = re.compile(
    r"(?:\[(?:rank|default)\d+\]: ?"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"(?: ?\[?(?:ERROR|WARNING|WARN|INFO|DEBUG|CRITICAL|FATAL)\]?:?)?(?: -)? ?"
    r"|(?:ERROR|WARNING|CRITICAL):[A-Za-z_][\w.]{0,80}:"
    r"|\((?:[\w.:]{1,80} )?pid=\d+[^()\n]{0,80}\) ?"
    r"|E {7}|E {3})"
)
_PREFIX_BEGINS: Final = frozenset("[0123456789(EWC")


class Line(NamedTuple):
    """One line of a log."""

    number: int
    """From 1."""
    text: str
    """Its beginning, without what a logger put in front of it."""
    log: str
    """The whole log, and in it"""
    start: int
    """where the line begins and"""
    end: int
    """where it ends."""

    @property
    def whole(self) -> str:
        """All of it, however long."""
        return self.log[self.start : self.end]


def plain(text: str) -> str:
    """A log without colours and carriage returns at the ends of lines. The lines stay where they are."""
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    return text.replace("\r\n", "\n") if "\r\n" in text else text


def without_prefix(text: str) -> str:
    """A line without what loggers and test runners put in front of it, two deep."""
    for _ in range(2):
        if not text or text[0] not in _PREFIX_BEGINS:
            return text
        found = _PREFIX.match(text)
        if found is None:
            return text
        text = text[found.end() :]
    return text
