"""A file that only grows, a line or a text at a time."""

from __future__ import annotations

import contextlib
import os

from otel_kernel_trace.closing import close_with, identity_of, is_same


class Appended:
    """Bytes added at the end of a file. Only one may be open of a file that is being written."""

    def __init__(self, fd: int, path: str) -> None:
        self.path = path
        """Below the root, with ``/`` between folders."""
        self._fd = fd
        self._identity = close_with(self, fd)
        self._size = os.fstat(fd).st_size

    def is_at(self, there: os.stat_result) -> bool:
        """Whether it is still open, and what was found at its path is the same file."""
        return identity_of(there) == self._identity and is_same(self._fd, self._identity)

    def append(self, content: bytes) -> int:
        """Add ``content`` whole or not at all.

        Returns:
            Where it begins.

        Raises:
            OSError: it can't be written; what came of it is taken back.
        """
        offset, done = self._size, 0
        try:
            while done < len(content):
                done += os.pwrite(self._fd, memoryview(content)[done:], offset + done)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, offset)
            raise
        self._size = offset + done
        return offset
