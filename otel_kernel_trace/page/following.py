"""A tree that is being written to, as a page that follows it asks for it. Safe for use by many threads."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import TypedDict

from otel_kernel_trace.page.report import error_of, why_gone
from otel_kernel_trace.page.shown import MAX_TEXT_BYTES, PartShown, RowShown, TaskShown, row_of, task_of
from otel_kernel_trace.reader import Action, Part, Task, Tree

_REFRESH_S = 0.5
"""A tree is looked at no more often."""
_SHARE = 0.1
"""Share of the time that may go into looking at it."""
_KEPT_TASKS = 4
MOST_HITS = 200
"""In a task, that are told of."""
_AROUND = 80
"""Characters before and behind what was found."""

TaskKey = tuple[str, str]


class OverviewShown(TypedDict):
    """Tasks that changed."""

    run: str
    """Which run of the server says so; revisions of another don't count."""
    revision: int
    rows: dict[str, RowShown]
    """By their number."""


class HitShown(TypedDict):
    """What was found in a text."""

    action: int
    part: str
    before: str
    found: str
    after: str
    nth: int
    """Which in its text, from 0."""


class FoundShown(TypedDict):
    """What was found in a task."""

    hits: list[HitShown]
    more: bool
    """Whether there is more than is told."""
    texts: int


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    revision: int
    shown: RowShown


class GoneError(Exception):
    """What was asked for is not there; says why."""


class Following:
    """Answers what a page asks of a tree.

    Args:
        tree: of nobody else's use from here on.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._lock = Lock()
        self._run = f"{time.time_ns():x}"
        self._revision = 0
        self._rows: dict[TaskKey, _Row] = {}
        self._keys: list[TaskKey] = []
        self._tasks: dict[TaskKey, tuple[int, Task]] = {}
        """By revision of their rows, those asked for last."""
        self._errors: dict[TaskKey, tuple[int, str]] = {}
        self._next_look = 0.0
        self._take_in()

    def overview(self, run: str, since: int) -> OverviewShown:
        """Tasks that changed since a revision."""
        with self._lock:
            self._look()
            if run != self._run:
                since = 0
            rows = {str(row.number): row.shown for row in self._rows.values() if row.revision > since}
            return OverviewShown(run=self._run, revision=self._revision, rows=rows)

    def task(self, number: int) -> TaskShown:
        """A task.

        Raises:
            GoneError: there is none of this number.
        """
        with self._lock:
            key = self._key(number)

            def place(action: Action, part: Part) -> PartShown:
                shown = PartShown(name=part.name, ref=f"{number}/{_name_of(action, part)}")
                if part.path:
                    shown["path"] = part.path
                if part.size is not None:
                    shown["size"] = part.size
                return shown

            return task_of(self._task(key), place)

    def text(self, number: int, name: str) -> tuple[bytes, bool]:
        """A text that :meth:`task` told of, and whether it was cut.

        Raises:
            GoneError: it is not there.
        """
        with self._lock:
            task = self._task(self._key(number))
            wanted = _named(name)
            for action in task.actions:
                if (action.step, action.action_type, action.copy) == wanted[:3] and wanted[3] in action.parts:
                    try:
                        content = self._tree.content(action.parts[wanted[3]], MAX_TEXT_BYTES + 1)
                    except OSError as error:
                        raise GoneError(why_gone(error)) from error
                    return content[:MAX_TEXT_BYTES], len(content) > MAX_TEXT_BYTES
        raise GoneError("there is no such text")

    def errors(self, numbers: Iterable[int]) -> dict[str, str]:
        """What first went wrong in tasks."""
        found = {}
        with self._lock:
            for number in numbers:
                key = self._key(number)
                revision = self._rows[key].revision
                known = self._errors.get(key)
                if known is None or known[0] != revision:
                    task = self._tree.task(*key)
                    known = self._errors[key] = (revision, error_of(self._tree, task) or "")
                found[str(number)] = known[1]
        return found

    def search(self, number: int, query: str) -> FoundShown:
        """Where a text stands in those of a task, in whatever case."""
        needle = re.compile(re.escape(query), re.IGNORECASE)
        hits: list[HitShown] = []
        texts = 0
        with self._lock:
            task = self._task(self._key(number))
        for index, action in enumerate(task.actions):
            for part in action.parts.values():
                try:
                    with self._lock:  # for one text at a time: what else is asked goes between them
                        text = self._tree.text(part, MAX_TEXT_BYTES)
                except OSError:
                    continue
                texts += 1
                for nth, found in enumerate(needle.finditer(text)):
                    if len(hits) >= MOST_HITS:
                        return FoundShown(hits=hits, more=True, texts=texts)
                    begin, end = found.span()
                    hits.append(
                        HitShown(
                            action=index,
                            part=part.name,
                            before=text[max(0, begin - _AROUND) : begin],
                            found=text[begin:end],
                            after=text[end : end + _AROUND],
                            nth=nth,
                        )
                    )
                    if nth >= 4:
                        break
        return FoundShown(hits=hits, more=False, texts=texts)

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        try:
            if self._tree.refresh():
                self._take_in()
        except OSError:
            pass  # the folder is gone, or not there for a moment: what was read stays
        after = time.monotonic()
        self._next_look = after + max(_REFRESH_S, (after - now) / _SHARE)

    def _take_in(self) -> None:
        self._revision += 1
        for key in self._tree.tasks():
            shown = row_of(self._tree.summary(*key))
            row = self._rows.get(key)
            if row is None:
                self._rows[key] = _Row(len(self._keys), self._revision, shown)
                self._keys.append(key)
            elif row.shown != shown:
                self._rows[key] = _Row(row.number, self._revision, shown)

    def _key(self, number: int) -> TaskKey:
        if not 0 <= number < len(self._keys):
            raise GoneError("there is no such task")
        return self._keys[number]

    def _task(self, key: TaskKey) -> Task:
        revision = self._rows[key].revision
        known = self._tasks.pop(key, None)
        if known is None or known[0] != revision:
            known = (revision, self._tree.task(*key))
        self._tasks[key] = known
        while len(self._tasks) > _KEPT_TASKS:
            del self._tasks[next(iter(self._tasks))]
        return known[1]


def _name_of(action: Action, part: Part) -> str:
    """A name for a text that stays when its task goes on, and that any URL can hold."""
    name = json.dumps([action.step, action.action_type, action.copy, part.name])
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _named(name: str) -> tuple[int, str, int, str]:
    try:
        given = json.loads(base64.urlsafe_b64decode(name.encode() + b"=="))
        step, action_type, copy, part = given
    except (ValueError, TypeError, RecursionError) as error:
        raise GoneError("there is no such text") from error
    return step, action_type, copy, part
