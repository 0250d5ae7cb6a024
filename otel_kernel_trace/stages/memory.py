"""How much memory a process has needed at most, as far as the system tells honestly.

Linux keeps a high-water mark for a program's memory, ``VmHWM`` of ``/proc/<pid>/status``
(https://man7.org/linux/man-pages/man5/proc_pid_status.5.html). The other figure that it has,
``ru_maxrss``, is no good for a command that a large process starts: what the process itself had
at that moment goes into the command's, as it is the memory that ``exec`` replaces.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from typing import Final

_UNIT: Final = 1 if sys.platform == "darwin" else 1024
"""Of ``ru_maxrss``, in bytes."""
_MARK: Final = b"VmHWM:"
_MAX_PROCESSES: Final = 64
"""Of a command that are looked at."""


def most_of_this_process() -> int:
    """Bytes of memory that this process has had at most, in all of its life."""
    return _mark_of("self") or bytes_of(resource.getrusage(resource.RUSAGE_SELF))


def most_of_command(pid: int) -> int:
    """Bytes that the largest of a process and its descendants has had at most; 0 where nothing tells."""
    most, looked_at, left = 0, 0, [str(pid)]
    while left and looked_at < _MAX_PROCESSES:
        looked_at += 1
        one = left.pop()
        most = max(most, _mark_of(one))
        with contextlib.suppress(OSError):  # it has ended, or there is no /proc
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/children", "rb") as file:
                    left += file.read().decode().split()
    return most


def bytes_of(usage: resource.struct_rusage) -> int:
    """The ``ru_maxrss`` of a usage."""
    return usage.ru_maxrss * _UNIT


def _mark_of(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            _, found, rest = file.read().partition(_MARK)
    except OSError:
        return 0
    return int(rest.split(None, 1)[0]) * 1024 if found else 0
