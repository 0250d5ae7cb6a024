"""The audit: texts as they were before secrets were taken out, in a folder of their own."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Final

from otel_kernel_trace.appended import Appended
from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.redaction.spans import Unredacted
from otel_kernel_trace.store import Store

_LINES: Final = ".jsonl"


class Audit:
    """Keeps texts with their secrets, a line of JSON each, in a file for each process.

    Files have the mode 0600, the folder 0700. A line is on disk when :meth:`add` returns.
    Thread-safe, and usable in a forked child.

    Args:
        folder: absolute path; made when the first text comes.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._store = Store(folder, 0o600)
        self._name = ""
        self._file: Appended | None = None
        self._lock = threading.Lock()
        after_fork_in_child(self)

    def add(self, trace_id: int, span_id: int, text: Unredacted) -> None:
        """Keep a text.

        Raises:
            OSError: it can't be written.
        """
        line = {
            "time": time.time_ns(),
            "traceId": f"{trace_id:032x}",
            "spanId": f"{span_id:016x}",
            "where": text.where,
            "redacted": dict(text.counts),
            "text": text.text,
        }
        content = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            if self._file is None or not self._store.has(self._file, (), self._name):
                self._check_folder()
                self._name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}{_LINES}"
                self._file = self._store.open_appended((), self._name)
            self._file.append(content)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._file = None  # the parent's is the parent's

    def _check_folder(self) -> None:
        """A folder that others may look into is not for secrets."""
        try:
            mode = os.stat(self.folder).st_mode
        except FileNotFoundError:
            return
        if mode & 0o077:
            raise PermissionError(f"{self.folder} is open to others than its owner: chmod 700 it")
