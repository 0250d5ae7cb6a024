"""Many texts in one HTML file: packed into compressed blocks, which the page opens as it needs them."""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from typing_extensions import Self

BLOCK_BYTES = 512 * 1024
"""A block is closed once it has as much text. More compresses no better, and takes longer to open."""
_LEVEL = 1  # 6 would save a tenth, and take three times as long
_AHEAD = 8
"""Blocks that may wait to be compressed or written."""


@dataclass(frozen=True, slots=True)
class Ref:
    """Where a text is."""

    block: int
    offset: int
    size: int
    """In bytes."""


class BlockWriter:
    """Writes blocks as elements of a page. Used as a context manager; complete when it ends.

    Args:
        file: what the elements are written to.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1))  # zlib lets other threads run
        self._waiting: deque[tuple[int, int, Future[bytes]]] = deque()
        self._known: dict[bytes, Ref] = {}
        self._open = bytearray()
        self._blocks = 0
        self._written = 0
        self._unwritten = 0

    def add(self, content: bytes) -> Ref:
        """Take a text; one that was taken before is not stored again."""
        digest = hashlib.blake2b(content, digest_size=16).digest()
        known = self._known.get(digest)
        if known is not None:
            return known
        if self._open and len(self._open) + len(content) > BLOCK_BYTES:
            self._close()
        ref = Ref(self._blocks, len(self._open), len(content))
        self._open += content
        self._known[digest] = ref
        return ref

    @property
    def size(self) -> int:
        """Bytes that were written; what waits for that counts as it is before it is compressed."""
        return self._written + self._unwritten + len(self._open)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._close()
                while self._waiting:
                    self._write()
        finally:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def _close(self) -> None:
        if self._open:
            content = bytes(self._open)
            self._waiting.append((self._blocks, len(content), self._pool.submit(_packed, content)))
            self._unwritten += len(content)
            self._open.clear()
            self._blocks += 1
        while len(self._waiting) > _AHEAD:
            self._write()

    def _write(self) -> None:
        number, size, packed = self._waiting.popleft()
        self._unwritten -= size
        element = b'<script type="application/octet-stream" id="b%d">%b</script>\n' % (
            number,
            packed.result(),
        )
        self._file.write(element)
        self._written += len(element)


def _packed(content: bytes) -> bytes:
    return base64.b64encode(zlib.compress(content, _LEVEL))
