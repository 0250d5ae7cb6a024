"""A number in a file that processes share, and the lock that keeps them apart."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time

if os.name != "posix":
    raise ImportError(
        "otel-kernel-trace needs the open folders and file locks of a POSIX system to write: "
        "Linux, macOS or WSL"
    )

import fcntl

from otel_kernel_trace.closing import close_with, identity_of

_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""What file systems without file locks answer (some network ones)."""

_LOCK_SECONDS = 1.0
"""How long a process that was stopped while it held a lock can hold up the others."""
_NUMBER_CHARS = 20
_FAR = 1_000_000


_MAX_BYTES = 8192
_MAX_GAPS = 64


class Counter:
    """A number in a file, advanced by one process at a time.

    Behind the number stand the gaps: numbers below it that nobody took, and the run that
    passed over them, to which they stay open. Its actions may end in another order
    than they began, in several processes.

    Thread-safe. To be opened anew in a forked child, which shares the parent's file lock.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._lock = threading.Lock()
        self._identity = close_with(self, fd)

    def advance(
        self, wanted: int | None, least: int | None = None, *, run: int = 0, kept: int = 0
    ) -> int | None:
        """Take ``wanted`` if it is above the number so far or in a gap of ``run``, else the next one.

        Args:
            wanted: at least 0, or None for the next one, which is at least 1. One that is
                far ahead is not taken: it would leave no numbers for others.
            least: what the number so far is taken to be if it is lower, or not there.
            run: whose action it is for; 128 bits.
            kept: instead of one number take so many, and leave them as a gap of the run.

        Returns:
            The number taken. None, and nothing is taken, where there is no number so far
            and ``least`` does not say.
        """
        with self._lock:
            locked = lock_file(self.fd)
            try:
                content = os.pread(self.fd, _MAX_BYTES, 0)
                digits = content[:_NUMBER_CHARS]
                number = int(digits) if digits.isdigit() else None
                if number is None and least is None:
                    return None
                before = max(-1 if number is None else number, -1 if least is None else least)
                ahead = wanted is not None and before < wanted <= before + _FAR
                taken = wanted if ahead and wanted is not None else max(before + 1, 1)
                if kept:
                    taken = max(before, 0) + kept
                if not kept and len(content) <= _NUMBER_CHARS + 1 and taken <= max(before, 0) + 1:
                    # As nearly always. Of one length, so that one write replaces all of it.
                    os.pwrite(self.fd, b"%020d\n" % taken, 0)
                    return taken
                gaps = _gaps_in(content[_NUMBER_CHARS + 1 :])
                if wanted is not None and not ahead and _take(gaps, run, wanted):
                    taken, last = wanted, before
                else:
                    last = taken
                    if kept or max(before, 0) + 1 < taken:
                        gaps.append((run, max(before, 0) + 1, taken if kept else taken - 1))
                lines = b"".join(b"%032x %d %d\n" % gap for gap in gaps[-_MAX_GAPS:])
                # The empty line is the end, whatever is left of longer lines behind it.
                os.pwrite(self.fd, b"%020d\n%s\n" % (last, lines), 0)
            finally:
                if locked:
                    fcntl.flock(self.fd, fcntl.LOCK_UN)
        return taken

    @property
    def is_gone(self) -> bool:
        """Whether the file was deleted, and with it what it counted; or closed behind our back."""
        try:
            there = os.fstat(self.fd)
        except OSError:
            return True
        return there.st_nlink == 0 or identity_of(there) != self._identity

    @property
    def number(self) -> int | None:
        """The number so far, None where the file has none."""
        digits = os.pread(self.fd, _NUMBER_CHARS, 0)
        return int(digits) if digits.isdigit() else None


def _gaps_in(content: bytes) -> list[tuple[int, int, int]]:
    """Run, first and last number of each gap."""
    gaps = []
    for line in content.partition(b"\n\n")[0].splitlines():
        fields = line.split(b" ")
        if len(fields) != 3 or len(line) > 100:
            break  # not ours, or cut by a full disk
        with contextlib.suppress(ValueError):
            gaps.append((int(fields[0], 16), int(fields[1]), int(fields[2])))
    return gaps


def _take(gaps: list[tuple[int, int, int]], run: int, number: int) -> bool:
    for index, (whose, first, last) in enumerate(gaps):
        if whose == run and first <= number <= last:
            left = [(run, first, number - 1), (run, number + 1, last)]
            gaps[index : index + 1] = [gap for gap in left if gap[1] <= gap[2]]
            return True
    return False


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
