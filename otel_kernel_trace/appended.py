"""A file that only grows, a line or a text at a time."""

from __future__ import annotations

import contextlib
import os

from otel_kernel_trace.closing import close_with


class Appended:
    """Bytes added at the end of a file. Only one may be open of a file that is being written."""

    def __init__(self, fd: int, path: str) -> None:
        self.path = path
        """Below the root, with ``/`` between folders."""
        self._fd = fd
        there = os.fstat(fd)
        self.identity = (there.st_dev, there.st_ino)
        """Device and inode."""
        self._size = there.st_size
        close_with(self, fd)

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
