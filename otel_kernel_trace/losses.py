"""Loss is never silent: what was received, written and lost, and the log lines that say so."""

from __future__ import annotations

import errno
import logging
import threading
import time
from dataclasses import dataclass

from otel_kernel_trace.forking import after_fork_in_child

_logger = logging.getLogger("otel_kernel_trace")

_LOG_SECONDS = 60.0
"""A kind of loss is logged at most once in this time."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Records of one exporter in this process; ``received == written + failed`` between calls."""

    received: int
    written: int
    failed: int


class RefusedError(Exception):
    """A record is not written, for the reason that the message gives."""


class Losses:
    """Counts records and reports those that were lost. Thread-safe."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._written = 0
        self._failed = 0
        self._kinds: dict[str, _Kind] = {}
        self._lock = threading.Lock()
        after_fork_in_child(self)

    @property
    def counts(self) -> Counts:
        with self._lock:
            return Counts(self._written + self._failed, self._written, self._failed)

    def count_written(self) -> None:
        with self._lock:
            self._written += 1

    def count_failed(self, what: str, error: Exception) -> None:
        """Count a record as lost, and report it."""
        with self._lock:
            self._failed += 1
        self.report(what, error)

    def report(self, what: str, error: Exception) -> None:
        """Log what could not be written, unless its kind was logged a short while ago."""
        name = _name_of(error)
        more = self._more_of(name)
        if more is not None:
            is_expected = isinstance(error, (OSError, RefusedError))
            _logger.error(
                "could not write %s below %s: %s: %s%s",
                what,
                self._where,
                name,
                error,
                more,
                exc_info=None if is_expected else error,
            )

    def warn(self, message: str) -> None:
        """Log that something is not as it should be, unless that was logged a short while ago."""
        more = self._more_of("warning")
        if more is not None:
            _logger.warning("%s%s", message, more)

    def _more_of(self, name: str) -> str | None:
        """How many of a kind were not logged since the last that was; None where this is not to be, too."""
        now = time.monotonic()
        with self._lock:
            kind = self._kinds.setdefault(name, _Kind())
            if kind.logged is not None and now - kind.logged < _LOG_SECONDS:
                kind.unlogged += 1
                return None
            unlogged, kind.unlogged, kind.logged = kind.unlogged, 0, now
        return f" ({unlogged} more of this kind since the last line)" if unlogged else ""

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._written = self._failed = 0  # the parent's are the parent's


class _Kind:
    """A kind of loss: when it was logged last, and how often it came since."""

    __slots__ = ("logged", "unlogged")

    def __init__(self) -> None:
        self.logged: float | None = None
        self.unlogged = 0


def _name_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, type(error).__name__)
    return type(error).__name__
