"""A tree, or some of it, as one file that a browser opens without network and without a server."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from otel_kernel_trace.page.blocks import BlockWriter, Ref
from otel_kernel_trace.page.document import BLOCKS, document
from otel_kernel_trace.page.shown import (
    MAX_TEXT_BYTES,
    PartShown,
    RowShown,
    row_of,
    task_of,
)
from otel_kernel_trace.reader import Action, NoTreeError, Part, Task, Tree

MOST_BYTES = 256_000_000
"""Of a larger page a browser takes long to open, or does not open it."""
_MAX_ERROR_CHARS = 240


@dataclass(frozen=True, slots=True)
class Reported:
    """What a report has."""

    tasks: int
    texts: int
    cut: int
    """Texts of which it has the beginning."""
    left_out: int
    """Texts that would have made it too large."""
    gone: int
    """Texts whose files are not there."""


def open_tree(log_dir: str | os.PathLike[str], op_name: str | None, task_id: str | None) -> Tree:
    """The tree of which a report is to be.

    Raises:
        NoTreeError: there is no tree, or no such op or task in it.
        OSError: the folder can't be read.
    """
    if op_name is not None and task_id is not None:
        return Tree(log_dir, only=(op_name, task_id))
    tree = Tree(log_dir)
    if op_name is not None and not _wanted(tree, op_name, None):
        raise NoTreeError(f"there is no op {op_name!r} in {os.fspath(log_dir)}")
    return tree


def write_report(
    tree: Tree,
    file: BinaryIO,
    *,
    op_name: str | None = None,
    task_id: str | None = None,
    most_bytes: int = MOST_BYTES,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Reported:
    """Write a report.

    Args:
        tree: what it is of.
        file: what it is written to.
        op_name, task_id: all that it is to tell of; everything where they are None.
        most_bytes: texts that would make it larger are left out.
        progress: told how many tasks are done, of how many.
    """
    keys = _wanted(tree, op_name, task_id)
    # The overview stands before the texts, so that it is shown while those are still read.
    with tempfile.TemporaryFile() as packed:
        rows: list[RowShown] = []
        with BlockWriter(packed) as writer:
            texts = _Texts(tree, writer, most_bytes)
            for number, key in enumerate(keys):
                progress(number, len(keys))
                rows.append(_packed_task(tree, tree.task(*key), texts))
            ref = writer.add(_json(rows))
        progress(len(keys), len(keys))
        title = os.path.basename(tree.log_dir) or "tree"
        config = {"mode": "report", "title": title, "overview": _ref(ref)}
        before, _, after = document(title, config, is_served=False).html.partition(BLOCKS)
        file.write(before.encode("utf-8", "replace"))
        packed.seek(0)
        shutil.copyfileobj(packed, file, 1 << 20)
        file.write(after.encode())
    return Reported(len(keys), texts.taken, texts.cut, texts.left_out, texts.gone)


class _Texts:
    """Packs the texts of actions."""

    def __init__(self, tree: Tree, writer: BlockWriter, most_bytes: int) -> None:
        self._tree = tree
        self.writer = writer
        self._most_bytes = most_bytes
        self.taken = self.cut = self.left_out = self.gone = 0

    def place(self, action: Action, part: Part) -> PartShown:
        shown = PartShown(name=part.name)
        if part.path:
            shown["path"] = part.path
        if part.size is not None:
            shown["size"] = part.size
        if self.writer.size > self._most_bytes:
            self.left_out += 1
            shown["gone"] = "left out, as the report would be too large: make one of this task alone"
            return shown
        try:
            content = self._tree.content(part, MAX_TEXT_BYTES + 1)
        except OSError as error:
            self.gone += 1
            shown["gone"] = why_gone(error)
            return shown
        if len(content) > MAX_TEXT_BYTES:
            content = content[:MAX_TEXT_BYTES]
            shown["cut"] = True
            self.cut += 1
        else:
            shown["size"] = len(content)
        self.taken += 1
        shown["ref"] = _ref(self.writer.add(content))
        return shown


def error_of(tree: Tree, task: Task) -> str | None:
    """What first went wrong in a task, in a line; None where nothing did."""
    if task.summary.first_failed is None:
        return None
    return tree.first_error(task.summary)[:_MAX_ERROR_CHARS] or "failed"


def why_gone(error: OSError) -> str:
    """Why a text can't be shown."""
    return "its file is not there" if isinstance(error, FileNotFoundError) else error.strerror or str(error)


def _packed_task(tree: Tree, task: Task, texts: _Texts) -> RowShown:
    row = row_of(task.summary, error_of(tree, task))
    row["ref"] = _ref(texts.writer.add(_json(task_of(task, texts.place))))
    return row


def _wanted(tree: Tree, op_name: str | None, task_id: str | None) -> list[tuple[str, str]]:
    return [
        (op, task)
        for op, task in tree.tasks()
        if (op_name is None or op == op_name) and (task_id is None or task == task_id)
    ]


def _ref(ref: Ref) -> list[int]:
    return [ref.block, ref.offset, ref.size]


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
