"""Work that comes while this thread is in the middle of ours.

The garbage collector and signal handlers run between any two instructions, also
between those that hold one of our locks. What they do may end a span, and so call the
exporter anew in the same thread, which would wait for itself for ever. Such work is put
off until the work in hand is done; that is before the call in hand returns.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType


class _Busy(threading.local):
    """A ``with`` block around every stretch that holds locks; may be nested."""

    def __init__(self) -> None:
        self._depth = 0
        self._frame: FrameType | None = None
        self._later: list[Callable[[], object]] = []

    @property
    def is_busy(self) -> bool:
        """Whether this thread is in the middle of ours."""
        if self._depth and not self._is_on_stack():
            # An exception out of a signal handler struck between entering and leaving.
            self._depth, self._frame = 0, None
        return self._depth > 0

    def puts_off(self, work: Callable[[], object]) -> bool:
        """Whether this thread is busy; then ``work`` is called when it no longer is."""
        if self.is_busy:
            self._later.append(work)
            return True
        return False

    def __enter__(self) -> None:
        if not self._depth:
            self._frame = sys._getframe(1)
        self._depth += 1

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth <= 0:
            self._depth, self._frame = 0, None
        while self._later and not self._depth:
            self._later.pop(0)()

    def _is_on_stack(self) -> bool:
        """Whether the function that was entered first has not been left."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame is self._frame:
                return True
            frame = frame.f_back
        return False


busy = _Busy()
