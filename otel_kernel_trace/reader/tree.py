"""A tree of records, finished or still being written, with an index or without."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import BinaryIO

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.actions import Agent, agent_of
from otel_kernel_trace.attributes import DIAGNOSTIC_ERRORS, ERROR_LOG
from otel_kernel_trace.diagnostics import first_error, parse_diagnostics
from otel_kernel_trace.diagnostics.extent import MAX_CHARS
from otel_kernel_trace.found import Unindexed
from otel_kernel_trace.index import FOLDER, LINES
from otel_kernel_trace.indexed import MAX_LINE_BYTES, Passed, read_reference, spans_of
from otel_kernel_trace.modelcalls import is_model_call
from otel_kernel_trace.names import safe_name
from otel_kernel_trace.reader.lines import (
    Line,
    LineReader,
    SpanKey,
    error_in,
    error_log_in,
    key_of,
    status_in,
)
from otel_kernel_trace.reader.model import Action, ModelCall, Part, Stage, Summary, Task, Tokens
from otel_kernel_trace.reader.outcome import Slot, error_line, summary_of
from otel_kernel_trace.reader.search import end_of_lines, lines_with, needles_of
from otel_kernel_trace.reader.spans import FACTS, action_of, call_of, description_of, part_name, stage_of
from otel_kernel_trace.reader.unindexed import UnknownNames
from otel_kernel_trace.record import attributes_of, read_record
from otel_kernel_trace.reference import references_in
from otel_kernel_trace.resources import parse_resources
from otel_kernel_trace.store import Store

TaskKey = tuple[str, str]
"""Op name and task id."""

_Place = tuple[str, int]
"""Of a line: its shard, and where it begins there."""

_WORDS = re.compile(r"[0-9]+|[^0-9]+")


class NoTreeError(Exception):
    """A folder has neither an index nor a file that is named as those of a tree."""


@dataclass(slots=True)
class _Known:
    """What is known of a task."""

    actions: dict[Slot, Line] = field(default_factory=dict)
    places: dict[Slot, _Place] = field(default_factory=dict)
    roots: list[tuple[bytes, int, int]] = field(default_factory=list)
    """Trace id, start and end of root spans."""
    stages: dict[SpanKey, tuple[Line, _Place]] = field(default_factory=dict)
    """Of one that a forked child ended too, the end that came last."""
    root_places: list[_Place] = field(default_factory=list)


class Tree:
    """What a tree tells, as it is now; :meth:`refresh` takes in what came since.

    Nothing is written, and nothing outside the folder is read. Not thread-safe.

    Args:
        log_dir: root of the tree.
        only: the one task that matters; others are not looked for, which is faster.
        may_be_empty: accept a folder without a record, as before a pipeline's first.

    Raises:
        NoTreeError: the folder holds no tree, or no such task.
        OSError: the folder can't be read.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str], *, only: TaskKey | None = None, may_be_empty: bool = False
    ) -> None:
        self.log_dir = os.path.realpath(os.path.expanduser(log_dir))
        self.passed = Passed()
        """What was passed over, and why."""
        os.listdir(self.log_dir)
        self._store = Store(self.log_dir)
        self._only = only
        self._lines = LineReader(self.passed)
        self._read: dict[str, int] = {}
        """By shard, how much of it was read."""
        self._tasks: dict[TaskKey, _Known] = {}
        self._begun: dict[SpanKey, _Place] = {}
        """By span, lines of actions that have begun and, as far as is known, not ended."""
        self._pending: dict[TaskKey, dict[Slot, tuple[Line, _Place]]] = {}
        self._calls: dict[str, list[_Place]] = {}
        """By trace id, lines of model calls."""
        self._unindexed: dict[TaskKey, dict[Slot, dict[str, str]]] = {}
        """Paths by attribute, of actions of which no line tells."""
        self.refresh()
        if only is not None and only not in self.tasks():
            raise NoTreeError(f"there is no task {only[1]!r} of op {only[0]!r} in {os.fspath(log_dir)}")
        if not self.tasks() and not may_be_empty:
            raise NoTreeError(
                f"there is no record in {os.fspath(log_dir)}: expected the root of a tree, with a folder "
                "for every operator"
            )

    def refresh(self) -> bool:
        """Take in what was written since; whether there was anything."""
        is_new = False
        for shard in self._shards():
            is_new |= self._read_shard(shard)
        if is_new or not self._read:
            self._pending = self._read_begun()
            is_new |= self._find_unindexed()
        return is_new

    def tasks(self) -> list[TaskKey]:
        """Op name and task id of all tasks, in order of both."""
        return sorted({*self._tasks, *self._pending, *self._unindexed}, key=_natural)

    def summaries(self) -> list[Summary]:
        """Every task in a line, in order of op and task."""
        return [self.summary(*key) for key in self.tasks()]

    def summary(self, op_name: str, task_id: str) -> Summary:
        """A task in a line.

        Raises:
            KeyError: there is no such task.
        """
        key = (op_name, task_id)
        known, pending = self._tasks.get(key), self._pending.get(key, {})
        unindexed = self._unindexed.get(key, {})
        if known is None and not pending and not unindexed:
            raise KeyError(key)
        actions = dict(known.actions) if known else {}
        for slot in unindexed.keys() - pending.keys():
            actions.setdefault(slot, _line(op_name, task_id, slot))
        return summary_of(
            op_name,
            task_id,
            actions,
            {slot: done for slot, (done, _) in pending.items() if slot not in actions},
            known.roots if known else (),
            [line for line, _ in known.stages.values()] if known else (),
            is_indexed=bool(known or pending),
        )

    def task(self, op_name: str, task_id: str) -> Task:
        """All that is known of a task.

        Raises:
            KeyError: there is no such task.
        """
        key = (op_name, task_id)
        summary = self.summary(op_name, task_id)
        known = self._tasks.get(key, _Known())
        places = {slot: place for slot, (_, place) in self._pending.get(key, {}).items()} | known.places
        actions = {
            slot: action for slot, place in places.items() if (action := self._action(key, slot, place))
        }
        for slot, paths in self._unindexed.get(key, {}).items():
            action = _with_paths(actions.get(slot) or _named(key, slot), paths)
            actions[slot] = self._diagnosed(action)
        runs = {action.trace_id for action in actions.values()}
        runs |= {run.decode() for run, _, _ in known.roots} | {run.decode() for run, _ in known.stages}
        calls = [
            call for run in sorted(runs) for place in self._calls.get(run, ()) for call in self._call(place)
        ]
        stages = [stage for span, (_, place) in known.stages.items() for stage in self._stage(span, place)]
        own = {action.span_id for action in actions.values()} | {call.span_id for call in calls}
        own |= {stage.span_id for stage in stages}
        # Of tasks in one trace each has its own calls, also where other spans stand in between.
        calls = [call for call in calls if call.parent_id in own or _is_during(call, actions.values())]
        return Task(
            summary,
            tuple(sorted(actions.values(), key=_order)),
            tuple(sorted(calls, key=lambda call: call.start or 0)),
            tuple((start, end or None) for _, start, end in sorted(known.roots, key=lambda root: root[1])),
            tuple(sorted(stages, key=lambda stage: (stage.start or 0, -(stage.end or 0)))),
            description=MappingProxyType(self._description(known.root_places, actions.values())),
        )

    def first_error(self, summary: Summary, most: int = 16_384) -> str:
        """The line that says best why the first failed verification of a task failed; empty for none.

        Args:
            summary: of a task of this tree.
            most: bytes of its log that are looked at.
        """
        known = self._tasks.get((summary.op_name, summary.task_id))
        if known is None or summary.first_failed is None:
            return ""
        for slot, line in sorted(known.actions.items(), key=lambda action: action[0]):
            if slot[0] == summary.first_failed and (line.is_error or line.passed is False):
                return self._first_error_at(known.places[slot], most)
        return ""

    def _first_error_at(self, place: _Place, most: int) -> str:
        shard, offset = place
        try:
            with self._store.open(FOLDER, shard) as file:
                file.seek(offset)
                line = file.readline(MAX_LINE_BYTES)
            if told := error_in(line):
                return told
            path = error_log_in(line)
            log = self._store.read_at(path, 0, most).decode("utf-8", "replace") if path else ""
        except OSError:
            return ""
        error = first_error(parse_diagnostics(log))
        return error.headline if error else error_line(log) or status_in(line)

    def text(self, part: Part, most: int | None = None) -> str:
        """A part's text; what UTF-8 can't hold is replaced.

        Args:
            part: of an action of this tree.
            most: bytes that are read.

        Raises:
            OSError: its file is gone, is no plain file, or lies outside the tree.
        """
        return self.content(part, most).decode("utf-8", "replace")

    def content(self, part: Part, most: int | None = None) -> bytes:
        """A part's bytes, as :meth:`text`."""
        if part.inline is not None:
            return part.inline.encode("utf-8", "surrogatepass")[:most]
        size = -1 if part.offset is None else part.size or 0
        if most is not None:
            size = most if size < 0 else min(size, most)
        return self._store.read_at(part.path, part.offset or 0, size)

    def last_written(self) -> int | None:
        """When the index was last added to, in nanoseconds since 1970; None where there is none."""
        times = []
        for shard in self._shards():
            with contextlib.suppress(OSError):
                times.append(self._store.changed("/".join((*FOLDER, shard))))
        return max(times, default=None)

    def changed(self, path: str) -> int:
        """When a file was last changed, in nanoseconds since 1970.

        Raises:
            OSError: it is not there.
        """
        return self._store.changed(path)

    # The index

    def _shards(self) -> list[str]:
        try:
            return sorted(name for name in self._store.entries(FOLDER) if name.endswith(LINES))
        except OSError:
            return []

    def _read_shard(self, shard: str) -> bool:
        begin = self._read.get(shard, 0)
        try:
            file = self._store.open(FOLDER, shard)
        except OSError:
            self.passed.strange += shard not in self._read
            self._read.setdefault(shard, 0)
            return False
        with file:
            try:
                size = file.seek(0, os.SEEK_END)
                if size < begin:
                    begin = 0  # another file of that name
                file.seek(begin)
            except OSError:  # a pipe
                return False
            if size == begin:
                self._read.setdefault(shard, begin)
                return False
            if self._only is not None:
                self._read[shard] = self._read_lines_of(self._only, shard, file, begin, size)
                return self._read[shard] > begin
            at = begin
            # A tree has a hundred thousand lines: no call here is one too many.
            begun_in, read, begun = self._lines.begun, self._lines.read, self._begun
            while at < size and (line := file.readline(MAX_LINE_BYTES)):
                if not line.endswith(b"\n"):
                    break  # is being written, or was cut
                span = begun_in(line)
                if span is not None:
                    begun[span] = (shard, at)
                else:
                    self._take(line, read(line), (shard, at))
                at += len(line)
            self._read[shard] = at
        return at > begin

    def _take(self, line: bytes, found: Sequence[Line | SpanKey], place: _Place) -> None:
        for one in found:
            if isinstance(one, Line):
                self._add(one, place)
            else:
                self._begun[one] = place
        if not found and (key := key_of(line)) is not None:
            self._calls.setdefault(key[0].decode(), []).append(place)

    def _read_lines_of(self, task: TaskKey, shard: str, file: BinaryIO, begin: int, size: int) -> int:
        """Take in the lines of one task alone, and of the model calls among them."""
        found = dict(lines_with(file, needles_of(task[1]), begin, size))
        for at, line in found.items():
            self._read_line(line, (shard, at))
        runs = {key[0] for line in found.values() if (key := key_of(line)) is not None}
        if runs:
            # Among the task's own: a call ends before the action around it.
            of_runs = [b'"spans":[{"traceId":"%b"' % run for run in runs]
            for at, line in lines_with(file, of_runs, min(found), max(found) + 1):
                if at not in found:
                    self._read_line(line, (shard, at))
        return end_of_lines(file, begin, size)

    def _read_line(self, line: bytes, place: _Place) -> None:
        span = self._lines.begun(line)
        if span is not None:
            self._begun[span] = place
        else:
            self._take(line, self._lines.read(line), place)

    def _add(self, line: Line, place: _Place) -> None:
        self._begun.pop(line.span, None)
        key = (line.op_name, line.task_id)
        if self._only is not None and key != self._only:
            return
        known = self._tasks.get(key)
        if known is None:
            known = self._tasks[key] = _Known()
        if line.is_stage:
            before = known.stages.get(line.span)
            if before is None or before[0].end <= line.end:
                known.stages[line.span] = (line, place)
            return
        if line.action_type is None:
            known.roots.append((line.span[0], line.start, line.end))
            known.root_places.append(place)
            return
        slot = (line.step, line.action_type, line.copy)
        known.actions[slot] = line
        known.places[slot] = place

    def _read_begun(self) -> dict[TaskKey, dict[Slot, tuple[Line, _Place]]]:
        pending: dict[TaskKey, dict[Slot, tuple[Line, _Place]]] = {}
        for place in self._begun.values():
            for span in self._spans_at(place):
                record = read_record(span)
                if record is None:
                    continue
                slot = (record.step or 0, record.action_type, record.copy)
                key = (b"%032x" % record.trace_id, b"%016x" % record.span_id)
                began = _line(record.op_name, record.task_id, slot, key, span.start_time or 0)
                pending.setdefault((record.op_name, record.task_id), {})[slot] = (began, place)
        return pending

    def _spans_at(self, place: _Place) -> list[ReadableSpan]:
        shard, offset = place
        try:
            with self._store.open(FOLDER, shard) as file:
                file.seek(offset)
                return spans_of(file.readline(MAX_LINE_BYTES), self.passed)
        except OSError:
            return []

    def _action(self, key: TaskKey, slot: Slot, place: _Place) -> Action | None:
        for span in self._spans_at(place):
            record = read_record(span)
            if record is not None and (record.step or 0, record.action_type, record.copy) == slot:
                action = action_of(span, record, self._with_facts(record.attributes))
                return action if DIAGNOSTIC_ERRORS in record.attributes else self._diagnosed(action)
        return None

    def _diagnosed(self, action: Action) -> Action:
        """An action with what its error log says, where the index does not tell that."""
        part = action.parts.get(ERROR_LOG)
        if part is None or action.diagnostics:
            return action
        try:
            log = self.text(part, MAX_CHARS)
        except OSError:
            return action
        return replace(action, diagnostics=parse_diagnostics(log), resources=parse_resources(log))

    def _stage(self, key: SpanKey, place: _Place) -> Iterator[Stage]:
        for span in self._spans_at(place):
            context = span.context
            if context and (b"%032x" % context.trace_id, b"%016x" % context.span_id) == key:
                yield stage_of(span, self._with_facts(attributes_of(span)))

    def _with_facts(self, given: Mapping[str, AttributeValue]) -> Mapping[str, AttributeValue]:
        """Attributes with those texts put back that are read as values."""
        references = references_in(given)
        facts = {
            name: read_reference(self._store, references[name], self.passed)
            for name in FACTS
            if name in references
        }
        return {**given, **facts}

    def _description(self, roots: Iterable[_Place], actions: Iterable[Action]) -> dict[str, str | int]:
        """What a task is made with; of what is told twice the last counts."""
        told = [
            (span.start_time or 0, description_of(span)) for place in roots for span in self._spans_at(place)
        ]
        told += [(action.start or 0, action.description) for action in actions]
        return {
            name: value for _, one in sorted(told, key=lambda each: each[0]) for name, value in one.items()
        }

    def _call(self, place: _Place) -> Iterator[ModelCall]:
        for span in self._spans_at(place):
            if is_model_call(attributes_of(span)):
                yield call_of(span)

    # Files of which no line tells

    def _find_unindexed(self) -> bool:
        """Look for actions in the folders of which the index does not tell, or not yet all."""
        steps: dict[str, dict[str, set[int]]] = {}
        for (op_name, task_id), known in self._tasks.items():
            pending = {slot[0] for slot in self._pending.get((op_name, task_id), ())}
            of_op = steps.setdefault(safe_name(op_name), {})
            of_op[task_id] = {slot[0] for slot in known.actions} - pending
        unknown = UnknownNames(steps, self._only)
        unindexed = Unindexed(self._store, unknown, Passed(), has_index=bool(self._read))
        found: dict[TaskKey, dict[Slot, dict[str, str]]] = {}
        for identity, files in unindexed.actions().items():
            slot = (identity.step, identity.action_type, identity.copy)
            found.setdefault((identity.op_name, identity.task_id), {})[slot] = files.paths
        is_new = found != self._unindexed
        self._unindexed = found
        return is_new


def _is_during(call: ModelCall, actions: Iterable[Action]) -> bool:
    at = call.start or 0
    return any((action.start or at + 1) <= at <= (action.end or at) for action in actions)


def _line(op_name: str, task_id: str, slot: Slot, span: SpanKey = (b"", b""), start: int = 0) -> Line:
    """What is known of an action that has not ended, or that no line tells of."""
    step, action_type, copy = slot
    return Line(op_name, task_id, span, start, 0, action_type, step, copy, False, False, None, None, Tokens())


def _named(key: TaskKey, slot: Slot) -> Action:
    """An action of which only the names of files tell."""
    step, action_type, copy = slot
    return Action(*key, step, action_type, agent_of(action_type), copy)


def _with_paths(action: Action, paths: Mapping[str, str]) -> Action:
    parts = dict(action.parts)
    for attribute, path in paths.items():
        name = part_name(attribute)
        if name is not None and name not in parts:
            parts[name] = Part(name, path)
    return replace(action, parts=MappingProxyType(parts))


def _order(action: Action) -> tuple[int, bool, int, int, str]:
    return action.step, action.agent is Agent.CONDUCTOR, action.start or 0, action.copy, action.action_type


def _natural(key: TaskKey) -> tuple[tuple[tuple[int, int, str], ...], ...]:
    """Numbers inside names in the order of numbers."""
    return tuple(
        tuple(
            (0, int(word), "") if word.isdigit() and len(word) < 20 else (1, 0, word)
            for word in _WORDS.findall(name)
        )
        for name in key
    )
