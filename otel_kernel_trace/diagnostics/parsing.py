"""One pass over a log: which parser sees which line.

Time is linear by construction. Signs are looked for with ``str.find``, chunk by chunk. Without an open
parser the pass jumps from one line with a sign to the next; with some, each line is shown to each of these
once. Of a line the first :data:`~otel_kernel_trace.diagnostics.lines.LONGEST` characters are looked at, and
no parser goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from otel_kernel_trace.diagnostics.assembly import assembled
from otel_kernel_trace.diagnostics.lines import LONGEST, Line, plain, without_prefix
from otel_kernel_trace.diagnostics.model import Diagnostic
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.parsers import all_parsers

_CHUNK: Final = 1 << 18
"""Characters, to the end of a line, of which the signs are held at once."""


def parse_diagnostics(text: str) -> tuple[Diagnostic, ...]:
    """All that a log says is wrong, in the log's order, each by the line where it begins.

    Args:
        text: what compilers, programs and comparisons wrote, mixed as it may be, whole or cut.

    Nothing is left out and nothing merged: what a compiler says once for each of its passes is
    here as often. Text that no parser knows gives nothing. Never raises; the time is linear in
    the length of the text. May be called from several threads at once.
    """
    parsers = [parser() for parser in all_parsers()]
    read(text, parsers)
    return assembled(parsers)


def read(text: str, parsers: Sequence[Parser]) -> int:
    """Shows a log to parsers. Returns how often a line was shown to one."""
    log = plain(text)
    by_sign: dict[str, list[Parser]] = {}
    for parser in parsers:
        for sign in parser.signs:
            by_sign.setdefault(sign, []).append(parser)
    shown = 0
    number = 1
    is_open: list[Parser] = []
    begin = 0
    while begin < len(log):
        chunk_end = _line_end(log, begin + _CHUNK)
        wanted = _wanted(log, begin, chunk_end, by_sign)
        coming = iter(sorted(wanted))
        next_wanted = next(coming, chunk_end)
        start = begin
        while start < chunk_end:
            if start > next_wanted:
                next_wanted = next(coming, chunk_end)
                continue
            if not is_open and start < next_wanted:
                number += log.count("\n", start, next_wanted)
                start = next_wanted
                continue
            end = _line_end(log, start)
            line = Line(number, without_prefix(log[start : min(end, start + LONGEST)]), log, start, end)
            readers = is_open
            if start == next_wanted:
                readers = is_open + [parser for parser in wanted[start] if parser not in is_open]
            is_open = [parser for parser in readers if parser.feed(line)]
            shown += len(readers)
            start = end + 1
            number += 1
        begin = chunk_end + 1
    for parser in parsers:
        parser.finish()
    return shown


def _wanted(log: str, begin: int, end: int, by_sign: dict[str, list[Parser]]) -> dict[int, list[Parser]]:
    """For the lines of a chunk that have a sign, by where they start: the parsers that want to see them."""
    wanted: dict[int, list[Parser]] = {}
    for sign, parsers in by_sign.items():
        place = log.find(sign, begin, end)
        while place >= 0:
            start = log.rfind("\n", begin, place) + 1 or begin
            if place - start < LONGEST:
                there = wanted.get(start)
                if there is None:
                    wanted[start] = parsers.copy()
                else:
                    for parser in parsers:
                        if parser not in there:
                            there.append(parser)
            place = log.find(sign, _line_end(log, place), end)
    return wanted


def _line_end(log: str, place: int) -> int:
    """Where the line ends that a place is in: at its line feed, or with the log."""
    end = log.find("\n", place)
    return end if end >= 0 else len(log)
