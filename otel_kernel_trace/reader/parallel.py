"""A part of a long index read by another process, as one core is too slow for hundreds of megabytes."""

from __future__ import annotations

import marshal
import os
from collections.abc import Iterable
from typing import Any, BinaryIO

from otel_kernel_trace.indexed import MAX_LINE_BYTES, Passed
from otel_kernel_trace.reader.lines import Line, LineReader, SpanKey, key_of
from otel_kernel_trace.reader.model import Tokens

Told = Line | SpanKey | bytes
"""What a line says: of an ended span, of one that had begun, or the trace id of a model call."""

_MIN_BYTES = 32 * 1024 * 1024
"""Less is not worth another process."""


def told_by(line: bytes, reader: LineReader) -> Iterable[Told]:
    """What a line says."""
    begun = reader.begun(line)
    if begun is not None:
        return (begun,)
    found = reader.read(line)
    if not found and (key := key_of(line)) is not None:
        return (key[0],)
    return found


def split(file: BinaryIO, begin: int, end: int, processes: int) -> list[tuple[int, int]]:
    """Ranges of whole lines, of about one length, for so many processes at most."""
    parts = max(1, min(processes, (end - begin) // _MIN_BYTES))
    ends = []
    for part in range(1, parts):
        file.seek(begin + (end - begin) * part // parts)
        file.readline(MAX_LINE_BYTES)
        ends.append(min(file.tell(), end))
    starts = [begin, *ends]
    return [(a, b) for a, b in zip(starts, [*ends, end], strict=True) if a < b]


class Child:
    """A forked process that reads lines of a file.

    Only for programs without other threads, as commands are: a fork takes their locks along.
    """

    def __init__(self, file: BinaryIO, begin: int, end: int) -> None:
        self._out, into = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                os.close(self._out)
                # Opened anew: both would share one place in the file.
                with open(f"/proc/self/fd/{file.fileno()}", "rb") as own, open(into, "wb") as pipe:
                    own.seek(begin)
                    pipe.write(marshal.dumps(_read(own, end)))
                status = 0
            finally:
                os._exit(status)
        os.close(into)

    def result(self) -> list[tuple[int, Told]] | None:
        """Where lines begin and what they say, in order; None where the process failed."""
        with open(self._out, "rb") as pipe:
            content = pipe.read()
        _, status = os.waitpid(self._pid, 0)
        return [_told(entry) for entry in marshal.loads(content)] if status == 0 else None


def _read(file: BinaryIO, end: int) -> list[tuple[object, ...]]:
    reader = LineReader(Passed())
    entries: list[tuple[object, ...]] = []
    at = file.tell()
    while at < end and (line := file.readline(MAX_LINE_BYTES)):
        if not line.endswith(b"\n"):
            break
        for told in told_by(line, reader):
            if isinstance(told, Line):
                entries.append((at, *told[:-1], told.tokens.input, told.tokens.output))
            elif isinstance(told, bytes):
                entries.append((at, told))
            else:
                entries.append((at, *told))
        at += len(line)
    return entries


def _told(entry: tuple[Any, ...]) -> tuple[int, Told]:
    # Any: what marshal gives back has no types; _read says what there is.
    at, *fields = entry
    if len(fields) == 1:
        return at, fields[0]
    if len(fields) == 2:
        return at, (fields[0], fields[1])
    return at, Line._make([*fields[:-2], Tokens(*fields[-2:])])
