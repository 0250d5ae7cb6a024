"""Work that comes while this thread is in the middle of ours.

The garbage collector and signal handlers run between any two instructions, also
between those that hold one of our locks. What they do may end a span, and so call the
exporter anew in the same thread, which would wait for itself for ever. Such work is put
off until the work in hand is done; that is before the call in hand returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType


class _Busy(threading.local):
    """A ``with`` block around every stretch that holds locks; may be nested."""

    def __init__(self) -> None:
        self._depth = 0
        self._later: list[Callable[[], object]] = []

    @property
    def is_busy(self) -> bool:
        """Whether this thread is in the middle of ours."""
        return self._depth > 0

    def puts_off(self, work: Callable[[], object]) -> bool:
        """Whether this thread is busy; then ``work`` is called when it no longer is."""
        if self._depth:
            self._later.append(work)
            return True
        return False

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._depth -= 1
        while self._later and not self._depth:
            self._later.pop(0)()


busy = _Busy()
