"""The lines of one task in a long index, found by their bytes."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from typing import BinaryIO

from otel_kernel_trace.attributes import TASK_ID

_CHUNK_BYTES = 16 * 1024 * 1024


def needles_of(task_id: str) -> list[bytes]:
    """What lines of a task hold, however JSON writes its id."""
    forms = {json.dumps(task_id, ensure_ascii=is_ascii) for is_ascii in (True, False)}
    return [
        f'{{"key":"{TASK_ID}","value":{{"stringValue":{form}}}}}'.encode("utf-8", "surrogatepass")
        for form in sorted(forms)
    ]


def lines_with(file: BinaryIO, needles: list[bytes], begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines that begin in a range and hold one of several texts, and where they begin."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for start in range(begin - begin % _CHUNK_BYTES, end, _CHUNK_BYTES):
            stop = min(start + _CHUNK_BYTES, end)
            starts = set()
            for needle in needles:
                found = content.find(needle, max(start, begin), stop + len(needle))
                while 0 <= found < stop:
                    starts.add(content.rfind(b"\n", begin, found) + 1 or begin)
                    found = content.find(needle, found + 1, stop + len(needle))
            for at in sorted(starts):
                after = content.find(b"\n", at) + 1
                if after:
                    yield at, content[at:after]
            if hasattr(content, "madvise"):
                # What was looked at is not to be counted as this process's memory.
                content.madvise(mmap.MADV_DONTNEED, start, min(_CHUNK_BYTES, len(content) - start))


def end_of_lines(file: BinaryIO, begin: int, end: int) -> int:
    """Where the last line ends that has an end."""
    at = end
    while at > begin:
        start = max(begin, at - 65_536)
        file.seek(start)
        found = file.read(at - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return begin
