"""A map that forgets what was not used for longest."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from otel_kernel_trace.forking import after_fork_in_child

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most ``most`` entries. Thread-safe, and usable in a forked child."""

    def __init__(self, most: int, *, forget_in_child: bool = False) -> None:
        self._most = most
        self._forget_in_child = forget_in_child
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()
        after_fork_in_child(self)

    def get(self, key: K) -> V | None:
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> V:
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return value

    def drop(self, key: K) -> None:
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        if self._forget_in_child:
            self._entries.clear()
