"""A number in a file that processes share, and the lock that keeps them apart."""

from __future__ import annotations

import errno
import os
import threading
import time
import weakref

if os.name != "posix":
    raise ImportError(
        "otel-kernel-trace needs the open folders and file locks of a POSIX system to write: "
        "Linux, macOS or WSL"
    )

import fcntl

_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""What file systems without file locks answer (some network ones)."""

_LOCK_SECONDS = 1.0
"""How long a process that was stopped while it held a lock can hold up the others."""
_NUMBER_CHARS = 20
_FAR = 1_000_000


class Counter:
    """A number in a file, advanced by one process at a time.

    Thread-safe. To be opened anew in a forked child, which shares the parent's file lock.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._lock = threading.Lock()
        weakref.finalize(self, os.close, fd)

    def advance(self, wanted: int | None, least: int | None = None) -> tuple[int, int] | None:
        """Take ``wanted`` if it is above the number so far, else the next one.

        Args:
            wanted: at least 0, or None for the next one, which is at least 1. One that is
                far ahead is not taken: it would leave no numbers for others.
            least: what the number so far is taken to be if it is lower, or not there.

        Returns:
            The number before (-1: none) and the number taken. None, and nothing is taken,
            where there is no number so far and ``least`` does not say.
        """
        with self._lock:
            locked = lock_file(self.fd)
            try:
                number = self.number
                if number is None and least is None:
                    return None
                before = max(-1 if number is None else number, -1 if least is None else least)
                ahead = wanted is not None and before < wanted <= before + _FAR
                taken = wanted if ahead and wanted is not None else max(before + 1, 1)
                # Of one length, so that one write replaces all of it.
                os.pwrite(self.fd, b"%020d\n" % taken, 0)
            finally:
                if locked:
                    fcntl.flock(self.fd, fcntl.LOCK_UN)
        return before, taken

    @property
    def is_gone(self) -> bool:
        """Whether the file was deleted, and with it what it counted."""
        return os.fstat(self.fd).st_nlink == 0

    @property
    def number(self) -> int | None:
        """The number so far, None where the file has none."""
        digits = os.pread(self.fd, _NUMBER_CHARS, 0)
        return int(digits) if digits.isdigit() else None


def lock_file(fd: int) -> bool:
    """Lock a file; False where there are no locks or the holder does not go on."""
    deadline = 0.0
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            now = time.monotonic()
            deadline = deadline or now + _LOCK_SECONDS
            if now > deadline:
                return False
            time.sleep(0.0001)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            raise
