"""One pass over a log: which parser sees which line.

Time is linear by construction. Without an open parser the pass jumps from sign to sign; with
some, each line is shown to each of these once. A line is looked at in its first
:data:`~otel_kernel_trace.diagnostics.lines.LONGEST` characters, and no parser goes back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from otel_kernel_trace.diagnostics.assembly import assembled
from otel_kernel_trace.diagnostics.lines import LONGEST, Line, plain, without_prefix
from otel_kernel_trace.diagnostics.model import Diagnostic
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.parsers import all_parsers


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
    any_sign = re.compile("|".join(map(re.escape, by_sign)))
    shown = 0
    number = 1
    start = 0
    is_open: list[Parser] = []
    while start <= len(log):
        if not is_open:
            found = any_sign.search(log, start)
            if found is None:
                break
            line_start = log.rfind("\n", start, found.start()) + 1 or start
            number += log.count("\n", start, line_start)
            start = line_start
        end = log.find("\n", start)
        if end < 0:
            end = len(log)
        head = without_prefix(log[start : min(end, start + LONGEST)])
        line = Line(number, head, log, start, end)
        readers = is_open
        if any_sign.search(head):
            readers = is_open.copy()
            for sign, wanting in by_sign.items():
                if sign in head:
                    readers += [parser for parser in wanting if parser not in readers]
        is_open = [parser for parser in readers if parser.feed(line)]
        shown += len(readers)
        start = end + 1
        number += 1
    for parser in parsers:
        parser.finish()
    return shown
