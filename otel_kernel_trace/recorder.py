"""Puts one action on disk: claims its step, writes its files, adds its lines to the index."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.actions import Agent, agent_of
from otel_kernel_trace.attributes import ACTION_TYPE, LAYOUT, OP_NAME, STEP, TASK_ID
from otel_kernel_trace.index import Index
from otel_kernel_trace.layout import File, Layout
from otel_kernel_trace.losses import RefusedError
from otel_kernel_trace.recent import Recent
from otel_kernel_trace.record import Record
from otel_kernel_trace.reference import Begun, InPlace, Reference, Written
from otel_kernel_trace.settings import OnExisting
from otel_kernel_trace.steps import StepNumbers, StepsAsGiven, StepsOnDisk
from otel_kernel_trace.store import Folder, NewFile, Store

_MAX_OWN_NAMES = 4096
_MAX_ATTEMPTS = 1000
"""Names tried for a record before its task is taken for hopeless."""

_Planned = tuple[list[NewFile], dict[str, InPlace]]


class Recorder:
    """Records of one tree. Thread-safe; methods raise ``OSError`` and ``RefusedError``."""

    def __init__(self, store: Store, layout: Layout, on_existing: OnExisting) -> None:
        self._store = store
        self._layout = layout
        self._on_existing = on_existing
        self.steps: StepNumbers = StepsOnDisk(store, layout) if on_existing == "continue" else StepsAsGiven()
        self._index = Index(store, layout.name)
        self._adoptable: Collection[str] | None = None
        self._imported: set[tuple[str, str, int]] = set()
        self._created = time.time_ns()
        self._own_names: Recent[tuple[int, tuple[str, ...], str], bool] = Recent(_MAX_OWN_NAMES)

    def begin(self, record: Record) -> Begun:
        """Put the parts on disk that an action has when it begins."""

        def given(step: int, copy: int) -> list[File]:
            files = self._layout.files(record, step, copy)
            return [file for file in files if file.attribute in record.attributes]

        return self._publish(record, given)

    def tell_begun(self, span: ReadableSpan, record: Record, begun: Begun) -> None:
        """Add a line to the index that an action has begun."""
        self._index.add(span, record.attributes, begun, is_pending=True)

    def note(self, span: ReadableSpan, given: Mapping[str, AttributeValue]) -> None:
        """Add a line to the index for a span that is no action."""
        self._index.add(span, given)

    def finish(self, span: ReadableSpan, record: Record, begun: Begun | None) -> Written:
        """Put the parts on disk that are not there yet, and a line that the action has ended."""
        if record.is_pending:
            begun = self.begin(record)
            self.tell_begun(span, record, begun)
            return _written(record, begun)
        files = self._complete(record, begun) if begun else None
        if begun and files is None and self._on_existing == "fail":
            raise _refused(begun.step)
        if begun and files is not None:
            done = Begun(begun.step, begun.copy, files)
        else:
            done = self._publish(record, partial(self._layout.files, record), was_taken=begun is not None)
        if begun:
            self._withdraw(begun, done.files)
        self._index.add(span, record.attributes, done)
        return _written(record, done)

    def import_beside(self, paths: Collection[str]) -> None:
        """From now on records are an import's; files are a record's own that hold its very texts.

        Args:
            paths: of files of which the index does not tell: an import that was killed between
                files and line has left them, and is repeated.
        """
        self._adoptable = paths
        self._imported = set()

    def _publish(
        self, record: Record, files_at: Callable[[int, int], Sequence[File]], *, was_taken: bool = False
    ) -> Begun:
        is_conductor = agent_of(record.action_type) is Agent.CONDUCTOR
        if self._adoptable is not None and record.step is not None and not was_taken:
            imported = self._publish_at(record.step, record, files_at, self._adoptable)
            if imported is not None:
                return imported
        step = self.steps.judged(record) if is_conductor else self.steps.claim(record, was_taken=was_taken)
        copy = record.copy if is_conductor else 1
        for _ in range(_MAX_ATTEMPTS):
            new, files = _planned(files_at(step, copy), record)
            if self._takes(record, new):
                return Begun(step, copy, files)
            if is_conductor and (self._on_existing != "fail" or self._is_own(record, new)):
                copy = self._free_copy(partial(files_at, step), record, copy)
            elif self._on_existing == "fail":
                raise _refused(step)
            else:
                step = self.steps.claim(record, was_taken=True)
        raise RefusedError(f"no free name after {_MAX_ATTEMPTS} attempts")

    def _publish_at(
        self,
        step: int,
        record: Record,
        files_at: Callable[[int, int], Sequence[File]],
        adoptable: Collection[str],
    ) -> Begun | None:
        """Put an import's record at its own step, where that is not another's.

        Its files come before the step is counted: were it the other way, one that is killed in
        between would leave a step that it could not take the next time.
        """
        new, files = _planned(files_at(step, record.copy), record)
        missing = self._not_adopted(new)
        last = self.steps.last(record.op_name, record.task_id)
        place = (record.op_name, record.task_id, step)
        # Runs that overwrote each other may have left actions of several kinds at a step.
        is_of_tree = LAYOUT in record.attributes and place in self._imported
        if not (step > last or is_of_tree or len(missing) < len(new)) or not self._store.publish(missing):
            return None
        if step > last and agent_of(record.action_type) is not Agent.CONDUCTOR:
            self.steps.count(record, last)
        if record.span_id:
            self.steps.learn(record.span_id, step)
        self._imported.add(place)
        return Begun(step, record.copy, files)

    def _takes(self, record: Record, new: Sequence[NewFile]) -> bool:
        """Whether a record's files are in place now; False where their names are taken for good."""
        if self._on_existing == "continue":
            return self._store.publish(new)
        if self._is_own(record, new):
            return False
        if not self._store.publish(new, replace=self._on_existing == "overwrite"):
            return False
        for folder, name, _ in new:
            self._own_names.put((record.trace_id, folder, name), True)
        return True

    def _is_own(self, record: Record, files: Iterable[NewFile] | Iterable[File]) -> bool:
        """Whether this run has written one of these, so that it is not to be replaced."""
        names = [(file[-3], file[-2]) for file in files]
        if any(self._own_names.get((record.trace_id, folder, name)) for folder, name in names):
            return True
        # Children of the run judge a step, too.
        is_conductor = agent_of(record.action_type) is Agent.CONDUCTOR
        return is_conductor and any(self._is_childs(folder, name) for folder, name in names)

    def _is_childs(self, folder: Folder, name: str) -> bool:
        """Whether a file was written since there is this exporter: by a child of the run, as a rule."""
        try:
            return self._store.changed("/".join((*folder, name))) > self._created
        except OSError:
            return False

    def _free_copy(self, files_at: Callable[[int], Sequence[File]], record: Record, taken: int) -> int:
        """The number of a step's next judgement, past one that is taken: they are taken in a row."""

        def is_taken(copy: int) -> bool:
            files = files_at(copy)
            if self._on_existing == "continue":
                return any(self._store.exists(file.folder, file.name) for file in files)
            return self._is_own(record, files)

        stride = 1
        while is_taken(taken + stride):
            taken, stride = taken + stride, 2 * stride
        free = taken + stride
        while free - taken > 1:
            middle = (taken + free) // 2
            taken, free = (middle, free) if is_taken(middle) else (taken, middle)
        return free

    def _complete(self, record: Record, begun: Begun) -> dict[str, InPlace] | None:
        """Add to what is there since the beginning; None where somebody else's files are in the way."""
        kept, added, changed = {}, [], []
        for file in self._layout.files(record, begun.step, begun.copy):
            before = begun.files.get(file.attribute)
            if before is None or not before.reference.path.endswith(file.name):
                added.append(file)
            elif not self._store.exists(file.folder, file.name):
                added.append(file)  # deleted since
            elif before.text == file.text:
                kept[file.attribute] = before
            else:
                changed.append(file)
        new, files = _planned(added, record)
        if not self._store.publish(self._not_adopted(new), replace=self._on_existing == "overwrite"):
            return None
        if not changed:
            return {**kept, **files}
        newer, changed_files = _planned(changed, record)
        self._store.publish(newer, replace=True)
        return {**kept, **files, **changed_files}

    def _not_adopted(self, files: list[NewFile]) -> list[NewFile]:
        adoptable = self._adoptable
        if not adoptable:
            return files
        return [
            (folder, name, content)
            for folder, name, content in files
            if "/".join((*folder, name)) not in adoptable or self._store.read(folder, name) != content
        ]

    def _withdraw(self, begun: Begun, files: Mapping[str, InPlace]) -> None:
        """Remove what was written at the beginning and is not where the record is now."""
        now = {file.reference.path for file in files.values()}
        for file in begun.files.values():
            if file.reference.path not in now:
                *folder, name = file.reference.path.split("/")
                self._store.withdraw(tuple(folder), name)


def _refused(step: int) -> RefusedError:
    return RefusedError(f"step {step} of the task has files already, and on_existing is 'fail'")


def _written(record: Record, done: Begun) -> Written:
    given = record.attributes
    identity = {name: given[name] for name in (OP_NAME, TASK_ID, ACTION_TYPE) if name in given}
    references = {attribute: file.reference for attribute, file in done.files.items()}
    return Written(done.step, references, {**identity, STEP: done.step})


def _planned(files: Sequence[File], record: Record) -> _Planned:
    """Contents to write, and by attribute what will be in place then."""
    new: list[NewFile] = []
    in_place: dict[str, InPlace] = {}
    for attribute, folder, name, text in files:
        is_as_given = record.attributes.get(attribute) is text
        try:
            content = text.encode()
        except UnicodeEncodeError:
            # Lone surrogates, which UTF-8 can't hold, are written as in a Python literal.
            content = text.encode("utf-8", "backslashreplace")
            is_as_given = False
        new.append((folder, name, content))
        in_place[attribute] = InPlace(Reference.to_file(folder, name, content), text, is_as_given)
    return new, in_place
