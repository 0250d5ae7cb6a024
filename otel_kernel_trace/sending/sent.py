"""What a backend has taken: remembered in the user's cache folder, a line for each request that succeeded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan

from otel_kernel_trace.sending.endpoint import Endpoint

Key = tuple[str, str, int]
"""Trace id and span id, in hexadecimal, and the end in nanoseconds since 1970; 0 where it has not ended.

A span that a forked child ended too has two ends; and one that was sent when it had begun
is sent again when it has ended."""


class SentSpans:
    """Which spans of a tree a backend has, kept in a file.

    A line of JSON for each request that succeeded; the first says what the file is of. A
    last line that was cut counts for nothing, so that a span is rather sent twice than never.

    Args:
        log_dir: root of the tree.
        endpoint: the backend's.
    """

    def __init__(self, log_dir: str, endpoint: Endpoint) -> None:
        self._of = {"tree": os.path.realpath(log_dir), "endpoint": endpoint.shown}
        digest = hashlib.sha256(f"{self._of['tree']}\0{endpoint.url}".encode("utf-8", "surrogateescape"))
        cache = os.environ.get("XDG_CACHE_HOME", "")  # to be ignored where it is no absolute path
        folder = Path(cache) if os.path.isabs(cache) else Path("~/.cache").expanduser()
        self.path = folder / "otel-kernel-trace" / "sent" / f"{digest.hexdigest()}.jsonl"
        self._keys: set[Key] = set()

    def load(self) -> None:
        """Read what earlier runs sent.

        Raises:
            OSError: the file is there and can't be read.
        """
        self._keys.clear()
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines[:-1]:
            self._keys.update(_keys_in(line))

    def forget(self) -> None:
        """Have it that nothing was sent.

        Raises:
            OSError: the file can't be deleted.
        """
        self._keys.clear()
        self.path.unlink(missing_ok=True)

    def prepare(self) -> None:
        """See to it that there is a file to which lines can be added.

        Raises:
            OSError: there can be none.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size == 0:
                file.write(_line(self._of))
            else:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")  # behind a line that was cut

    def add(self, keys: Sequence[Key]) -> None:
        """Remember spans as sent.

        Raises:
            OSError: they can't be written.
        """
        line = _line({"sent": [f"{trace}-{span}-{end}" for trace, span, end in keys]})
        with self.path.open("ab", buffering=0) as file:
            if file.write(line) < len(line):
                raise OSError(f"{self.path} is cut")
        self._keys.update(keys)

    def __contains__(self, key: Key) -> bool:
        return key in self._keys


def _line(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _keys_in(line: bytes) -> Iterator[Key]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return
    sent = content.get("sent") if isinstance(content, dict) else None
    for text in sent if isinstance(sent, list) else ():
        trace, _, rest = str(text).partition("-")
        span, _, end = rest.partition("-")
        if end.isdecimal():
            yield trace, span, int(end)


def key_of(span: ReadableSpan) -> Key | None:
    """By what a span is remembered; None for one without ids."""
    context = span.context
    if context is None or not (context.trace_id and context.span_id):
        return None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}", span.end_time or 0
