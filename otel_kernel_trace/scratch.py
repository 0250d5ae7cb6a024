"""A file for what should not fill the memory."""

from __future__ import annotations

import os
import tempfile
import threading

from otel_kernel_trace.closing import close_with, is_same


class Scratch:
    """Bytes put away on disk. Thread-safe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._process = os.getpid()
        self._size = 0
        self._lock = threading.Lock()
        self._identity = close_with(self, fd)

    @property
    def is_writable(self) -> bool:
        """False in a forked child, which shares the file with its parent and may only read."""
        return self._process == os.getpid() and is_same(self._fd, self._identity)

    def append(self, content: bytes) -> int:
        """Where the content begins; read it back with :meth:`read`."""
        with self._lock:
            offset = self._size
            done = 0
            while done < len(content):
                done += os.pwrite(self._fd, memoryview(content)[done:], offset + done)
            self._size = offset + done
        return offset

    def read(self, offset: int, size: int) -> bytes:
        content = b""
        if not is_same(self._fd, self._identity):
            return content
        while len(content) < size and (
            more := os.pread(self._fd, size - len(content), offset + len(content))
        ):
            content += more
        return content


def temporary_scratch() -> Scratch:
    """A scratch among the system's temporary files, without a name.

    Raises:
        OSError: none can be had.
    """
    with tempfile.TemporaryFile() as file:
        return Scratch(os.dup(file.fileno()))
