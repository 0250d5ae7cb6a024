"""From a tree to OTLP JSON lines, and from any OTLP JSON to a tree."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import BinaryIO, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.actions import Agent, agent_of
from otel_kernel_trace.exporter import KernelTraceSpanExporter
from otel_kernel_trace.found import Unindexed
from otel_kernel_trace.index import GIVEN
from otel_kernel_trace.indexed import (
    MAX_LINE_BYTES,
    Passed,
    Shards,
    documents_in,
    indexed_spans,
    lines_of,
    read_reference,
    shards_of,
    spans_of,
    whole_attributes,
)
from otel_kernel_trace.modelcalls import ModelCall, is_model_call, read_model_call
from otel_kernel_trace.otlp import line_of
from otel_kernel_trace.record import Record, attributes_of, read_record, with_attributes
from otel_kernel_trace.reference import SIZE, Begun, InPlace, Reference, references_in, without_references
from otel_kernel_trace.store import Folder, Store

_IN_FILES = (attributes.PART_PREFIX, attributes.VERIFY_SOURCE_PREFIX)
"""How the names of attributes begin whose texts are files."""

_AFTER_ALL = 2**31
"""Stands for the step of an action that says none: those are counted after the others."""

_MAX_NESTING = 64
"""Spans between a model call and the action around it."""

_Key = tuple[int, int]
"""Trace id and span id."""


@dataclass(slots=True)
class Exported:
    """What an export wrote."""

    spans: int = 0
    passed: Passed = field(default_factory=Passed)


@dataclass(slots=True)
class Imported:
    """What an import did."""

    actions: int = 0
    others: int = 0
    """Tasks and model calls."""
    known: int = 0
    """Spans that the tree has already."""
    foreign: int = 0
    """Spans of other things."""
    failed: int = 0
    """Actions that could not be written; the log says why."""
    passed: Passed = field(default_factory=Passed)

    def add(self, more: Imported) -> None:
        """Add what another import did."""
        self.actions += more.actions
        self.others += more.others
        self.known += more.known
        self.foreign += more.foreign
        self.failed += more.failed
        self.passed.add(more.passed)


class Told(NamedTuple):
    """A span that a tree tells of."""

    span: ReadableSpan
    """As the index has it; of files without a line, with what their names say."""
    whole: Mapping[str, AttributeValue]
    """Its attributes, with the texts put back in and without the references to them."""
    references: Mapping[str, Reference]
    """To the files that have the texts, by the attribute; none for files without a line."""


def whole_spans(
    log_dir: str,
    passed: Passed,
    *,
    is_wanted: Callable[[ReadableSpan], bool] = lambda _: True,
    on_span: Callable[[], object] = lambda: None,
    on_count: Callable[[int], object] = lambda _: None,
) -> Iterator[Told]:
    """The spans that a tree tells of, with its texts put back in; of one that has ended, its end alone.

    Files that its index does not tell of are told too, with what their names say.

    Args:
        log_dir: root of the tree, which is only read.
        passed: counts what is passed over.
        is_wanted: asked for every span as the index has it; the texts of others are not read.
        on_span: called after every span, those that are not wanted included.
        on_count: called once, before the first, with the number of spans in the index.

    Raises:
        OSError: the index can't be read.
    """
    store, begun = Store(log_dir), time.time_ns()
    shards = shards_of(store, passed)
    owners, count = _owners(store, shards)
    on_count(count)
    unindexed = _unindexed(store, owners, passed)
    for span in indexed_spans(store, passed, shards):
        seen = attributes_of(span)
        references = references_in(seen)
        files = {name: reference for name, reference in references.items() if reference.offset is None}
        if files and all(owners.get(reference.path) != _key(span) for reference in files.values()):
            passed.replaced += 1
            on_span()
            continue
        record = read_record(span) if unindexed else None
        found = {} if record is None else unindexed.take(record, seen.get(attributes.LAYOUT))
        if is_wanted(span):
            yield Told(span, {**found, **whole_attributes(span, store, passed)}, files)
        on_span()
    for span in unindexed.spans(begun, lambda: _owners(store, shards_of(store, Passed()))[0]):
        if is_wanted(span):
            yield Told(span, attributes_of(span), {})
        on_span()


def export_jsonl(
    log_dir: str,
    out: BinaryIO,
    on_span: Callable[[], object] = lambda: None,
    on_count: Callable[[int], object] = lambda _: None,
) -> Exported:
    """Write a tree as OTLP JSON lines, a span a line, with its texts put back in.

    Files that its index does not tell of are written too, with what their names say.

    Args:
        log_dir: root of the tree, which is only read.
        out: where to.
        on_span, on_count: as of :func:`whole_spans`.

    Raises:
        OSError: the index can't be read, or ``out`` not be written.
    """
    done = Exported()
    for told in whole_spans(log_dir, done.passed, on_span=on_span, on_count=on_count):
        out.write(line_of(told.span, _readable(told.whole)))
        done.spans += 1
    return done


def _owners(store: Store, shards: Shards) -> tuple[dict[str, _Key], int]:
    """By path, the action whose text a file has; where runs overwrite each other, it is the last one's.

    And how many spans there are.
    """
    owners: dict[str, _Key] = {}
    count = 0
    for span in indexed_spans(store, Passed(), shards):
        count += 1
        for reference in references_in(attributes_of(span)).values():
            if reference.offset is None:
                owners[reference.path] = _key(span)
    return owners, count


def _unindexed(store: Store, owners: Mapping[str, _Key], passed: Passed) -> Unindexed:
    def unknown(folder: Folder, names: list[str]) -> list[str]:
        before = "/".join(folder)
        return [name for name in names if f"{before}/{name}" not in owners]

    return Unindexed(store, unknown, passed, has_index=bool(owners))


def _readable(given: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    """Texts as their files have them: other readers of JSON take no lone surrogates."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode()
        if isinstance(value, str) and not value.isascii() and name.startswith(_IN_FILES)
        else value
        for name, value in given.items()
    }


def import_file(
    file: BinaryIO,
    exporter: KernelTraceSpanExporter,
    *,
    texts: str | None = None,
    on_span: Callable[[], object] = lambda: None,
) -> Imported:
    """Write the actions in a file of OTLP JSON to a tree, whoever made it.

    Steps are kept where the tree has nobody else's there; else the actions of a task go
    after its last, in their order. Spans that the tree's index has are passed over, so
    that an import may be repeated.

    Args:
        file: OTLP JSON, a ``TracesData`` a line or one in all.
        exporter: of the tree.
        texts: root of a tree that has the texts to which the spans refer.
        on_span: called after every span.

    Raises:
        OSError: the file can't be read, or there is no room for a copy of it.
    """
    done = Imported()
    store = Store(texts) if texts else None
    with tempfile.TemporaryFile() as copy:
        # A span a line, so that they can be written in another order.
        there = _there(exporter)
        exporter.import_beside(there.unindexed)
        plan = _Plan(known=there.spans)
        for span in _spans_in(file, done.passed):
            if plan.takes(span, copy.tell(), done):
                copy.write(line_of(span, attributes_of(span), span.dropped_attributes))
        order = list(plan.in_order())
        exporter.learn(
            {
                judged: there.steps.get(judged, told)
                for judged, told in plan.judged.items()
                if told or judged in there.steps
            }
        )
        for offset in order:
            span = _span_at(copy, offset)
            given = dict(attributes_of(span))
            call = plan.calls.get(_key(span))
            if call is not None and attributes.LAYOUT not in given:  # else a processor has seen to it
                _fill_in(given, read_model_call(attributes_of(_span_at(copy, call))))
            # What has references was written whole, or has one to what it says of that.
            is_all = bool(store and references_in(given))
            span = with_attributes(span, _resolved(given, store, done.passed), is_all=is_all)
            _write(span, exporter, done, there.begun.get(_key(span)))
            on_span()
    return done


def merge(log_dirs: Iterable[str], exporter: KernelTraceSpanExporter) -> Imported:
    """Add trees to a tree; nothing there is overwritten, and what it has already is passed over.

    Raises:
        OSError: a tree can't be read.
    """
    total = Imported()
    for log_dir in log_dirs:
        with tempfile.TemporaryFile() as file:
            exported = export_jsonl(log_dir, file)
            file.seek(0)
            done = import_file(file, exporter)
        done.passed.add(exported.passed)
        total.add(done)
    return total


class _Plan:
    """The order in which spans are written: a task's by step, each followed by its judgements."""

    def __init__(self, known: set[tuple[int, int, int]]) -> None:
        self.calls: dict[_Key, int] = {}
        """By action, where the model call stands from which it takes what it was not given."""
        self._known = known
        self._actions: list[_Planned] = []
        self._others: list[int] = []
        self._parents: dict[_Key, _Key] = {}
        self._called: list[tuple[int, int, _Key]] = []
        self.judged: dict[int, int] = {}
        """By id, the spans that Conductors judge and that are not there; and the step told, or 0."""
        self._ended = {key[:2] for key in known if key[2]}

    def takes(self, span: ReadableSpan, offset: int, done: Imported) -> bool:
        """Whether a span is to be written; ``offset`` is where it stands."""
        given = attributes_of(span)
        record = read_record(span)
        key = _key(span)
        if span.parent is not None:
            self._parents[key] = (span.parent.trace_id, span.parent.span_id)
        is_call = record is None and is_model_call(given)
        if record is None and not is_call and attributes.OP_NAME not in given:
            done.foreign += 1
            return False
        ended = (*key, span.end_time or 0)  # a span that a forked child ended too has two ends
        if key != (0, 0) and ended in self._known:
            done.known += 1
            return False
        self._known.add(ended)
        if span.end_time:
            self._ended.add(key)
        if record is not None:
            if record.judges:
                self.judged[record.judges] = record.step or 0
            self._actions.append(_planned(span, record, offset))
        else:
            self._others.append(offset)
            if is_call and span.status.status_code is not StatusCode.ERROR:
                self._called.append((span.end_time or 0, offset, key))
        return True

    def in_order(self) -> Iterator[int]:
        # A beginning of which the end is there, too, says nothing more.
        self._actions = [a for a in self._actions if not (a.is_pending and a.key in self._ended)]
        for action in self._actions:
            self.judged.pop(action.key[1], None)
        actions = {action.key for action in self._actions if not action.is_verification}
        for _, offset, key in sorted(self._called):
            around = self._parents.get(key)
            for _ in range(_MAX_NESTING):
                if around is None or around in actions:
                    break
                around = self._parents.get(around)
            if around in actions and around is not None:
                self.calls[around] = offset
        yield from self._others
        yield from (action.offset for action in _sorted(self._actions))


class _Planned(NamedTuple):
    """An action, so that sorting gives the order in which those of a run are written."""

    op_name: str
    task_id: str
    step: int
    counted: int
    """The start, for an action that says no step."""
    is_judgement: bool
    copy: int
    start: int
    offset: int
    key: _Key
    is_pending: bool
    is_verification: bool
    is_of_tree: bool
    """Whether it comes from a tree, which says where it was there."""


def _planned(span: ReadableSpan, record: Record, offset: int) -> _Planned:
    has_step = record.step is not None
    return _Planned(
        record.op_name,
        record.task_id,
        record.step if record.step is not None else _AFTER_ALL,
        0 if has_step else span.start_time or 0,
        agent_of(record.action_type) is Agent.CONDUCTOR,
        record.copy,
        span.start_time or 0,
        offset,
        _key(span),
        record.is_pending,
        agent_of(record.action_type) is Agent.VERIFIER,
        attributes.LAYOUT in record.attributes,
    )


def _sorted(actions: list[_Planned]) -> Iterator[_Planned]:
    """A task's actions by step; where runs share steps, as no run in a tree does, one after the other."""
    actions.sort()
    for _, grouped in groupby(actions, key=lambda action: action[:2]):
        task = list(grouped)
        steps = [action.step for action in task if not action.is_judgement and action.step != _AFTER_ALL]
        if len(set(steps)) < len(steps) and not all(action.is_of_tree for action in task):
            begun: dict[int, int] = {}
            for action in task:
                run = action.key[0]
                begun[run] = min(begun.get(run, action.start), action.start)
            task.sort(key=lambda action: (begun[action.key[0]], action.key[0]))
        yield from task


def _write(
    span: ReadableSpan, exporter: KernelTraceSpanExporter, done: Imported, begun: Begun | None
) -> None:
    failed = exporter.counts.failed
    exporter.write(span, begun)
    if read_record(span) is None:
        done.others += 1
    elif exporter.counts.failed > failed:
        done.failed += 1
    else:
        done.actions += 1


def _fill_in(given: dict[str, AttributeValue], call: ModelCall | None) -> None:
    if call is not None:
        parts = {
            attributes.PROMPT: call.prompt,
            attributes.REASONING: call.reasoning,
            attributes.RESULT: call.result,
        }
        for part, text in parts.items():
            if text is not None:
                given.setdefault(attributes.PART_PREFIX + part, text)


def _resolved(
    given: dict[str, AttributeValue], store: Store | None, passed: Passed
) -> dict[str, AttributeValue]:
    """Attributes with the texts of which they have previews, or with a note that they are previews."""
    references = references_in(given)
    whole = without_references(given, references)
    notes = [whole[attributes.INCOMPLETE]] if attributes.INCOMPLETE in whole else []
    for name, reference in references.items():
        text = read_reference(store, reference, passed) if store else None
        if text is not None:
            whole[name.removeprefix(GIVEN)] = text
            if name == attributes.PART_PREFIX + attributes.RESULT and reference.offset is None:
                whole[attributes.RESULT_IS_DOCUMENT] = True
        elif name in whole:
            notes.append(f"{name}: a preview of {reference.size} bytes, which are in {reference.path}")
        elif reference.size:
            notes.append(f"{name}: missing; its {reference.size} bytes are in {reference.path}")
    for mark in [key for key in whole if key.endswith(SIZE) and type(whole[key]) is int]:
        name = mark.removesuffix(SIZE)
        if name.startswith("kernel_trace.") and name in whole:
            notes.append(f"{name}: a preview of {whole.pop(mark)} bytes")
    if notes:
        whole[attributes.INCOMPLETE] = "\n".join(map(attributes.text, notes))
    return whole


@dataclass(frozen=True, slots=True)
class _There:
    """What a tree has already."""

    spans: set[tuple[int, int, int]] = field(default_factory=set)
    """Trace id, span id and end."""
    steps: dict[int, int] = field(default_factory=dict)
    """By span id."""
    begun: dict[_Key, Begun] = field(default_factory=dict)
    """Of actions that have not ended."""
    unindexed: set[str] = field(default_factory=set)
    """Paths of files of which the index does not tell."""


def _there(exporter: KernelTraceSpanExporter) -> _There:
    there, store = _There(), Store(exporter.log_dir)
    owners, _ = _owners(store, shards_of(store, Passed()))
    there.unindexed.update(_unindexed(store, owners, Passed()).paths())
    for span in indexed_spans(store, Passed()):
        key, given = _key(span), attributes_of(span)
        step, copy = given.get(attributes.STEP), given.get(attributes.COPY)
        there.spans.add((*key, span.end_time or 0))
        if type(step) is int:
            there.steps[key[1]] = step
            if given.get(attributes.PENDING) is True:
                files = {
                    name: InPlace(reference, text, True)
                    for name, reference in references_in(given).items()
                    if (text := read_reference(store, reference, Passed())) is not None
                }
                there.begun[key] = Begun(step, copy if type(copy) is int else 1, files)
    return there


def _key(span: ReadableSpan) -> _Key:
    return (span.context.trace_id, span.context.span_id) if span.context else (0, 0)


def _spans_in(file: BinaryIO, passed: Passed) -> Iterator[ReadableSpan]:
    first = file.readline(MAX_LINE_BYTES)
    if not _is_json(first):
        # One document over several lines, or lines of which the first is broken.
        content = first + file.read(MAX_LINE_BYTES)
        if len(content) < MAX_LINE_BYTES and _is_json(content):
            yield from spans_of(content, passed)
            return
    file.seek(0)
    for line in lines_of(file, passed):
        yield from spans_of(line, passed)


def _is_json(content: bytes) -> bool:
    try:
        return bool(list(documents_in(content)))
    except (ValueError, RecursionError):
        return False


def _span_at(file: BinaryIO, offset: int) -> ReadableSpan:
    file.seek(offset)
    [span] = spans_of(file.readline(), Passed())
    return span
