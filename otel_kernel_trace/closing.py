"""Open files that close when nobody has them any more, and touch nobody else's."""

from __future__ import annotations

import contextlib
import os
import weakref

Identity = tuple[int, int]
"""Device and inode."""


def identity_of(there: os.stat_result) -> Identity:
    """Which file a stat is of."""
    return (there.st_dev, there.st_ino)


def is_same(fd: int, identity: Identity) -> bool:
    """Whether a descriptor is still of that file: a program that daemonises closes all, and opens its own."""
    try:
        return identity_of(os.fstat(fd)) == identity
    except OSError:
        return False


def close_with(owner: object, fd: int) -> Identity:
    """Close ``fd`` when ``owner`` is collected, if it is then still of the same file; gives which.

    Not when the interpreter exits: what ends its spans only then still writes, and the
    system closes the file anyway.
    """
    identity = identity_of(os.fstat(fd))
    weakref.finalize(owner, _close, fd, identity).atexit = False
    return identity


def _close(fd: int, identity: Identity) -> None:
    if is_same(fd, identity):
        with contextlib.suppress(OSError):
            os.close(fd)
