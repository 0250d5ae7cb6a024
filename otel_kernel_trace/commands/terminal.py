"""Texts of strangers on a terminal: nothing in them is obeyed, and what is wide is counted so."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence

import click
from wcwidth import wcswidth, wcwidth

_UNSAFE = re.compile(
    # Controls but for line end and tab; marks that turn the direction of writing; what is in no text.
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_WIDEST_LINE = 2000
"""Of a longer line the rest is counted, and left out."""

COLOURS = {
    "passed": "green",
    "failed": "red",
    "unfinished": "yellow",
    "unverified": "yellow",
    "unknown": "bright_black",
}


def safe(text: str) -> str:
    """A text with what a terminal could obey written as an escape: ``\\x1b``, ``\\u202e``."""
    return _UNSAFE.sub(_escaped, text)


def safe_line(text: str, width: int = _WIDEST_LINE) -> str:
    """A text on one line, of a width at most."""
    if len(text) <= width and text.isascii() and text.isprintable():
        return text  # as nearly all are
    line = safe(text[: 4 * width + 4]).replace("\n", " ").replace("\t", " ")
    if len(line) <= width and wcswidth(line) <= width:
        return line
    taken = used = 0
    for char in line:
        used += max(wcwidth(char), 0)
        if used > width - 1:
            break
        taken += 1
    return line[:taken] + "…"


def safe_text(text: str) -> str:
    """A text of many lines, none of them endless."""
    return "\n".join(
        line if len(line) <= _WIDEST_LINE else f"{line[:_WIDEST_LINE]}… ({len(line) - _WIDEST_LINE} more)"
        for line in safe(text).split("\n")
    )


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def set_colours(context: click.Context) -> bool:
    """Colours on a terminal alone, and never with NO_COLOR; whether there are any."""
    context.color = is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return bool(context.color)


def is_terminal() -> bool:
    """Whether stdout is one."""
    return sys.stdout is not None and sys.stdout.isatty()  # it may be closed


def width() -> int | None:
    """Of the terminal; None where the output goes somewhere else, and lines may be as long as they are."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def page(text: str) -> None:
    """Show a text, through a pager where it is longer than the terminal."""
    has_terminal = is_terminal() and sys.stdin is not None and sys.stdin.isatty()
    if has_terminal and text.count("\n") >= shutil.get_terminal_size().lines - 1:
        click.echo_via_pager(text)
    else:
        click.echo(text.rstrip("\n"))


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[int] = (),
    colour: Callable[[int, str], str | None] = lambda column, text: None,
    width: int | None = None,
) -> list[str]:
    """Rows as lines with columns of equal width; the last column takes what is left of the width."""
    cells = [[safe_line(cell) for cell in row] for row in rows]
    columns = list(zip(head, *cells, strict=True))
    widths = [max(map(_width, column)) for column in columns]
    if width is not None:
        before = sum(widths[:-1]) + 2 * (len(widths) - 1)
        widths[-1] = max(20, min(widths[-1], width - before))
    rights = set(right)
    lines = []
    for index, row in enumerate([list(head), *cells]):
        texts = []
        for column, cell in enumerate(row):
            if column == len(row) - 1:
                cell = safe_line(cell, widths[-1]) if _width(cell) > widths[-1] else cell
            space = " " * (widths[column] - _width(cell))
            shown = cell
            if index == 0:
                shown = click.style(cell, bold=True)
            elif (name := colour(column, cell)) is not None:
                shown = click.style(cell, fg=name)
            texts.append(space + shown if column in rights else shown + space)
        lines.append("  ".join(texts).rstrip())
    return lines


def _width(text: str) -> int:
    return len(text) if text.isascii() else max(wcswidth(text), 0)


def duration(nanoseconds: int | None) -> str:
    """As ``31.4 µs``, ``0.12 s``, ``3 min 05 s``, ``2 h 03 min``; ``-`` where it is not known."""
    if nanoseconds is None:
        return "-"
    if 0 < nanoseconds < 10_000_000:
        return f"{nanoseconds / 1e3:.3g} µs" if nanoseconds < 1_000_000 else f"{nanoseconds / 1e6:.3g} ms"
    seconds = nanoseconds / 1e9
    if seconds < 60:
        return f"{seconds:.3g} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:02.0f} min"


def size(number: int | None) -> str:
    """Of bytes, as ``512 B``, ``1.2 kB``, ``345 MB``; ``-`` where it is not known."""
    if number is None:
        return "-"
    for divisor, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if number >= divisor:
            return (
                f"{number / divisor:.3g} {unit}" if number < 1000 * divisor else f"{number // divisor} {unit}"
            )
    return f"{number} B"


def speedup(value: float | None) -> str:
    """As ``1.25x``; ``-`` where it is not known."""
    return "-" if value is None else f"{value:.3g}x"


def count(number: float | None) -> str:
    """As ``950``, ``12.3k``, ``4.56M``; ``-`` where it is not known."""
    if number is None:
        return "-"
    for divisor, unit in ((1e6, "M"), (1e3, "k")):
        if number >= divisor:
            return f"{number / divisor:.3g}{unit}"
    return f"{number:.3g}"
