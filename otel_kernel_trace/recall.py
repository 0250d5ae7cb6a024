"""The records of a task so far, kept on disk rather than in memory."""

from __future__ import annotations

import logging
import marshal
import threading
from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import overload

from otel_kernel_trace.actions import ActionType
from otel_kernel_trace.attributes import ERROR_LOG, PROMPT, REASONING
from otel_kernel_trace.busy import busy
from otel_kernel_trace.exporter import KernelTraceSpanExporter
from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.record import Record
from otel_kernel_trace.scratch import Scratch

_ACTIONS = tuple(ActionType)
_TREE_PARTS = (PROMPT, REASONING, ERROR_LOG)
"""Texts that a record's own files hold as they were given."""

_IN_MEMORY = -1

_logger = logging.getLogger("otel_kernel_trace")


class TraceRecord:
    """One record as the program made it. Texts are read from disk when asked for."""

    __slots__ = ("_index", "_records", "action_type")

    def __init__(self, records: TraceRecords, index: int, action_type: ActionType) -> None:
        self._records = records
        self._index = index
        self.action_type = action_type

    @property
    def result(self) -> str:
        """The raw reply, or the verdict."""
        return self._records.text(self._index, "result")

    @property
    def prompt(self) -> str:
        """What the model was asked; empty for a Verifier's record."""
        return self._records.text(self._index, PROMPT)

    @property
    def reasoning(self) -> str:
        """What the model thought; empty for a Verifier's record."""
        return self._records.text(self._index, REASONING)

    @property
    def error_log(self) -> str:
        """What compiler, run and comparison said; empty but for a Verifier's record."""
        return self._records.text(self._index, ERROR_LOG)

    @property
    def profile(self) -> str:
        """Measurements as they were given; empty but for a Verifier's record."""
        return self._records.text(self._index, "profile")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TraceRecord):
            return NotImplemented
        return self._fields() == other._fields()

    __hash__ = None  # type: ignore[assignment]  # equal by texts, which are too long to hash

    def __repr__(self) -> str:
        return f"TraceRecord(action_type={self.action_type}, result={self.result[:60]!r})"

    def _fields(self) -> tuple[ActionType, str, str, str, str, str]:
        return (self.action_type, self.result, self.prompt, self.reasoning, self.error_log, self.profile)


class TraceRecords(Sequence[TraceRecord]):
    """A list of records that takes 32 bytes of memory for each. Thread-safe.

    A text comes from the record's own file where that holds it as it was given, else
    from a scratch file, else, where nothing could be written, from memory.
    """

    def __init__(self, op_name: str, task_id: str, exporter: KernelTraceSpanExporter | None) -> None:
        self._op_name = op_name
        self._task_id = task_id
        self._exporter = exporter
        # Four numbers a record, added in one call: a fork finds all of them or none.
        self._table = array("q")
        self._scratches: list[tuple[int, Scratch]] = []
        self._kept: dict[int, dict[str, str]] = {}
        self._has_told = False
        self._lock = threading.RLock()
        after_fork_in_child(self)

    def append(
        self,
        action_type: ActionType,
        step: int,
        texts: dict[str, str],
        *,
        in_tree: Collection[str],
        secret: dict[str, str] | None = None,
    ) -> None:
        """Add a record.

        Args:
            action_type: what the action did.
            step: the step it has on disk.
            texts: text by field name.
            in_tree: names of the fields that files of the tree hold, if they are such as do.
            is_written: whether its files are all in place.
            secret: texts that are on no disk as they were given; they stay in memory.
        """
        texts = {
            name: text
            for name, text in texts.items()
            if name not in in_tree or name not in _TREE_PARTS or not _is_utf8(text)
        }
        with busy, self._lock:
            index = len(self)
            place, size = self._put_away(index, texts)
            if place == _IN_MEMORY or secret:
                self._kept[index] = {**(texts if place == _IN_MEMORY else {}), **(secret or {})}
            self._table.extend(array("q", (step, _ACTIONS.index(action_type), place, size)))

    def text(self, index: int, name: str) -> str:
        """A field of the record at ``index``, empty where it had none."""
        with busy, self._lock:
            kept = self._kept.get(index, {})
            step, action, place, size = self._table[4 * index : 4 * index + 4]
            scratch = next((file for first, file in reversed(self._scratches) if first <= index), None)
        if name in kept:
            return kept[name]
        texts: dict[str, str] | None = None
        if place != _IN_MEMORY and scratch is not None:
            content = scratch.read(place, size)
            # Gone where the program closed all its files.
            if len(content) == size:
                texts = marshal.loads(content)
            else:
                texts = {}
                self._tell_of_loss()
        if texts is not None and name in texts:
            return texts[name]
        if name not in _TREE_PARTS or self._exporter is None:
            return ""
        identity = Record(self._op_name, self._task_id, _ACTIONS[action].name, parts={name: " "})
        return self._exporter.read_part(identity, step, name) or ""

    def _tell_of_loss(self) -> None:
        if not self._has_told:
            self._has_told = True
            _logger.warning(
                "trace_list has lost the texts that no file of the tree holds (raw replies, verdicts): "
                "the program has closed all open files"
            )

    def after_fork(self) -> None:
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._table) // 4

    @overload
    def __getitem__(self, index: int) -> TraceRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[TraceRecord]: ...
    def __getitem__(self, index: int | slice) -> TraceRecord | list[TraceRecord]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError("record index out of range")
        return TraceRecord(self, at, _ACTIONS[self._table[4 * at + 1]])

    def __iter__(self) -> Iterator[TraceRecord]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return repr(list(self))

    def _put_away(self, index: int, texts: dict[str, str]) -> tuple[int, int]:
        if self._exporter is None:
            return _IN_MEMORY, 0
        try:
            scratch = self._exporter.scratch()
            if not self._scratches or self._scratches[-1][1] is not scratch:
                self._scratches.append((index, scratch))
            content = marshal.dumps(texts)
            return scratch.append(content), len(content)
        except Exception:  # noqa: BLE001 - whatever the disk has against it, memory has not
            return _IN_MEMORY, 0


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
