"""A map that forgets what was put there first."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from typing import Generic, TypeVar

from otel_kernel_trace.forking import after_fork_in_child

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most ``most`` entries. Thread-safe without a lock: every step is one of dict's own."""

    __slots__ = ("__weakref__", "_entries", "_forget_in_child", "_most", "get")

    def __init__(self, most: int, *, forget_in_child: bool = False) -> None:
        self._most = most
        self._forget_in_child = forget_in_child
        self._entries: dict[K, V] = {}
        self.get = self._entries.get
        """The value of a key, or None."""
        after_fork_in_child(self)

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: K, value: V) -> V:
        """Give a key a value, and the value back."""
        self._entries[key] = value
        if len(self._entries) > self._most:
            # Another thread may have been faster.
            with suppress(KeyError, RuntimeError, StopIteration):
                del self._entries[next(iter(self._entries))]
        return value

    def drop(self, key: K) -> None:
        self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()

    def after_fork(self) -> None:
        if self._forget_in_child:
            self._entries.clear()
