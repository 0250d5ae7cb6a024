"""What has to be made anew in a forked child.

A child has the parent's objects but only the thread that forked: a lock that
another thread held stays locked for ever, and an open file is shared with the
parent, file locks included.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class ForkAware(Protocol):
    def after_fork(self) -> None:
        """Called in the child before anything else runs there."""


_objects: WeakSet[ForkAware] = WeakSet()


def after_fork_in_child(instance: ForkAware) -> None:
    """Have ``instance.after_fork`` called in every child forked while it lives."""
    _objects.add(instance)


def _after_fork() -> None:
    for instance in list(_objects):
        instance.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
