"""The index beside the tree: OTLP JSON lines with times, ids and verdicts, and references for texts.

Every process has a shard of its own, ``.kernel_trace/index/<time>-<pid>-<random>.jsonl``,
to which it adds a line when an action begins and one when it ends, so that a crash
costs at most the line in hand. A line names the files of the action's parts. A
text that no file holds stands in the line itself, or where it is long in the
shard's ``.texts`` file, at an offset that the line tells.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Mapping
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.appended import Appended
from otel_kernel_trace.attributes import (
    ACTION_TYPE,
    COPY,
    DIAGNOSTIC_SIGNATURE,
    GEN_AI_INPUT_TOKENS,
    GEN_AI_OUTPUT_TOKENS,
    LAYOUT,
    LOG_DIR,
    OP_NAME,
    PENDING,
    STAGE,
    STEP,
    TASK_ID,
    VERIFY_RESULT,
)
from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.otlp import line_of
from otel_kernel_trace.recent import Recent
from otel_kernel_trace.reference import Begun, InPlace, Reference
from otel_kernel_trace.store import PRIVATE, Folder, Store

_MAX_INLINE_CHARS = 2048
"""A longer text goes to the shard's texts."""

FOLDER: Final[Folder] = (PRIVATE, "index")
LINES: Final = ".jsonl"
TEXTS: Final = ".texts"

GIVEN: Final = "kernel_trace.given."
"""Before an attribute's name for the reference to its text as it was given, where its file has another:
the reply that ``result.txt`` was parsed out of."""

_FIRST: Final = (
    OP_NAME,
    TASK_ID,
    STEP,
    ACTION_TYPE,
    STAGE,
    VERIFY_RESULT,
    DIAGNOSTIC_SIGNATURE,
    GEN_AI_INPUT_TOKENS,
    GEN_AI_OUTPUT_TOKENS,
)
"""What a reader wants of every line stands first, so that it need not look at the rest."""

# Each is an open file, so there are few of them, however many trees there are.
_open: Recent[tuple[str, str], Appended] = Recent(32, forget_in_child=True)


def _is_long(value: AttributeValue) -> bool:
    return isinstance(value, str) and len(value) > _MAX_INLINE_CHARS


class Index:
    """What one process adds to the index of a tree. Thread-safe, and usable in a forked child.

    Args:
        store: of the tree.
        layout: name of the tree's layout.
    """

    def __init__(self, store: Store, layout: str) -> None:
        self._store = store
        self._layout = layout
        self._name = ""
        self._lock = threading.Lock()
        after_fork_in_child(self)

    def add(
        self,
        span: ReadableSpan,
        given: Mapping[str, AttributeValue],
        done: Begun | None = None,
        *,
        is_pending: bool = False,
    ) -> None:
        """Add a line.

        Args:
            span: an action, a task, a stage or a model call.
            given: its attributes.
            done: what is on disk of the action.
            is_pending: whether the span has begun and not ended.

        Raises:
            OSError: it can't be written.
        """
        told: dict[str, AttributeValue] = {}
        if is_pending:
            told[PENDING] = True
        for name in _FIRST:
            value = done.step if done is not None and name == STEP else given.get(name)
            if value is not None and not _is_long(value):
                told[name] = value
        if done is not None and done.copy > 1:
            told[COPY] = done.copy
        files: Mapping[str, InPlace] = done.files if done else {}
        for name, value in given.items():
            if name in told:
                continue
            file = files.get(name)
            if file is not None and file.is_as_given:
                continue
            if isinstance(value, str) and _is_long(value):
                told.update(self._put_away(value).attributes(name if file is None else GIVEN + name))
            else:
                told[name] = value
        told.pop(LOG_DIR, None)
        told[LAYOUT] = self._layout
        for name, file in files.items():
            told.update(file.reference.attributes(name))
        line = line_of(span, told)
        with self._lock:
            self._shard(LINES).append(line)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._name = ""  # the parent's shard is the parent's

    def _put_away(self, text: str) -> Reference:
        content = text.encode("utf-8", "surrogatepass")
        with self._lock:
            texts = self._shard(TEXTS)
            offset = texts.append(content)
        return Reference(texts.path, hashlib.sha256(content).hexdigest(), len(content), offset)

    def _shard(self, suffix: str) -> Appended:
        key = (self._store.root, self._name + suffix)
        opened = _open.get(key) if self._name else None
        if opened is None or not self._store.has(opened, FOLDER, self._name + suffix):
            if opened is not None or not self._name:
                # Deleted with all that was in it, or none yet.
                self._name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}"
            key = (self._store.root, self._name + suffix)
            opened = _open.put(key, self._store.open_appended(FOLDER, self._name + suffix))
        return opened
