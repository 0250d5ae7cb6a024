"""Reading the index, and putting back the texts that its lines refer to.

An index may be a stranger's, and may still be written to: nothing is trusted, and
nothing outside the tree is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.attributes import LAYOUT, LOG_DIR, PART_PREFIX, PENDING, RESULT, RESULT_IS_DOCUMENT
from otel_kernel_trace.index import FOLDER, GIVEN, LINES
from otel_kernel_trace.layout import Layout
from otel_kernel_trace.otlp import spans_in
from otel_kernel_trace.record import attributes_of
from otel_kernel_trace.reference import Reference, references_in, without_references
from otel_kernel_trace.reply import document
from otel_kernel_trace.store import Store

MAX_LINE_BYTES: Final = 256 * 1024 * 1024
"""A longer line is passed over: it would have to be in memory as a whole."""

_RESULT = PART_PREFIX + RESULT


_DECODER = json.JSONDecoder()
_NEXT = re.compile(r"[\s,]*[^\s,]")


@dataclass(slots=True)
class Passed:
    """What was passed over in reading, by why."""

    torn: int = 0
    """Last lines that a crash cut."""
    unreadable: int = 0
    """Lines that are no JSON, too long or nested too deep; spans that are none."""
    missing: int = 0
    """Texts whose file is gone."""
    strange: int = 0
    """Files whose name is none of a layout's."""
    replaced: int = 0
    """Actions whose files a later run has overwritten."""
    changed: int = 0
    """Texts that are not what the index says; they are taken as they are."""

    def add(self, more: Passed) -> None:
        """Add what was passed over elsewhere."""
        self.torn += more.torn
        self.unreadable += more.unreadable
        self.missing += more.missing
        self.strange += more.strange
        self.replaced += more.replaced
        self.changed += more.changed


def lines_of(file: BinaryIO, passed: Passed, end: int | None = None) -> Iterator[bytes]:
    """The lines of a file, from where it stands, that begin before ``end``; one without an end was cut."""
    while (end is None or file.tell() < end) and (line := file.readline(MAX_LINE_BYTES)):
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            passed.unreadable += 1
            while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
        elif not line.isspace():
            yield line


def spans_of(line: bytes, passed: Passed) -> list[ReadableSpan]:
    """The spans of a line of OTLP JSON."""
    spans: list[ReadableSpan] = []
    try:
        for document in documents_in(line):
            found = list(spans_in(document))
            passed.unreadable += found.count(None)
            spans += [span for span in found if span is not None]
    except (ValueError, RecursionError):
        if line.endswith(b"\n"):
            passed.unreadable += 1
        else:
            passed.torn += 1
    return spans


def documents_in(content: bytes) -> Iterator[object]:
    """The JSON documents in a text, also those of a list; several may stand in one line.

    Raises:
        ValueError, RecursionError: what comes next is no JSON, or nested too deep.
    """
    text = content.decode("utf-8-sig")
    position = 0
    while rest := _NEXT.match(text, position):
        document, position = _DECODER.raw_decode(text, rest.end() - 1)
        yield from document if isinstance(document, list) else [document]


Shards = Mapping[str, int]
"""The files of an index by name, and how much of each is looked at: more may be written meanwhile."""


def shards_of(store: Store, passed: Passed) -> Shards:
    """The files of a tree's index as they are now."""
    try:
        names = sorted(name for name in store.entries(FOLDER) if name.endswith(LINES))
    except FileNotFoundError:
        return {}
    shards = {}
    for name in names:
        try:
            with store.open(FOLDER, name) as file:
                shards[name] = file.seek(0, os.SEEK_END)
        except OSError:  # a folder, a link, a pipe: nothing of ours
            passed.strange += 1
    return shards


def indexed_spans(store: Store, passed: Passed, shards: Shards | None = None) -> Iterator[ReadableSpan]:
    """The spans in a tree's index as they stand there; of one that has ended its end alone."""
    pending: dict[tuple[int, int], tuple[str, int]] = {}
    for shard, size in (shards_of(store, passed) if shards is None else shards).items():
        with store.open(FOLDER, shard) as file:
            for line in lines_of(file, passed, size):
                for span in spans_of(line, passed):
                    key = (span.context.trace_id, span.context.span_id) if span.context else (0, 0)
                    if attributes_of(span).get(PENDING) is True:
                        pending[key] = (shard, file.tell() - len(line))
                    else:
                        pending.pop(key, None)
                        yield span
    for shard, offset in pending.values():
        with store.open(FOLDER, shard) as file:
            file.seek(offset)
            yield from spans_of(file.readline(MAX_LINE_BYTES), passed)


def whole_attributes(span: ReadableSpan, store: Store, passed: Passed) -> dict[str, AttributeValue]:
    """A span's attributes with the texts that they refer to, and without the references."""
    seen = attributes_of(span)
    references = references_in(seen)
    whole = without_references(seen, references)
    whole.pop(LOG_DIR, None)
    texts = {name: read_reference(store, reference, passed) for name, reference in references.items()}
    written = texts.pop(_RESULT, None)
    for name, text in texts.items():
        if text is None:
            continue
        if name.startswith(GIVEN):
            # The reply that the result was parsed out of; of other texts what UTF-8 can't hold.
            if name.removeprefix(GIVEN) == _RESULT:
                whole[_RESULT] = text
        else:
            whole[name] = text
    if written is None:
        return whole
    digest = hashlib.sha256(written.encode("utf-8", "surrogateescape")).hexdigest()
    if digest != references[_RESULT].sha256:
        # Somebody edited it; that it may look like a reply makes it none.
        whole[_RESULT] = written
        if document(written) != written:
            whole[RESULT_IS_DOCUMENT] = True
    elif not isinstance(whole.get(_RESULT), str):
        whole[_RESULT] = written  # the reply itself
    return whole


def read_reference(store: Store, reference: Reference, passed: Passed) -> str | None:
    """The text that a reference is to, as it is now; None where it is not there."""
    try:
        if reference.offset is None:
            content = store.read_at(reference.path)
        else:
            content = store.read_at(reference.path, max(reference.offset, 0), max(reference.size, 0))
    except (OSError, ValueError, OverflowError):
        passed.missing += 1
        return None
    if hashlib.sha256(content).hexdigest() != reference.sha256:
        passed.changed += 1
    return content.decode("utf-8", "surrogatepass" if reference.offset is not None else "surrogateescape")


def layout_in(file: BinaryIO) -> str | None:
    """The layout that the first line of an export names, if it does and there is such a layout."""
    for span in spans_of(file.readline(MAX_LINE_BYTES), Passed()):
        layout = attributes_of(span).get(LAYOUT)
        if isinstance(layout, str) and layout in Layout.by_name:
            return layout
    return None


def layout_of(log_dir: str) -> str | None:
    """The layout that a tree's index names."""
    store = Store(log_dir)
    with contextlib.suppress(OSError):
        for shard in sorted(name for name in store.entries(FOLDER) if name.endswith(LINES)):
            with store.open(FOLDER, shard) as file:
                if (layout := layout_in(file)) is not None:
                    return layout
    return None
