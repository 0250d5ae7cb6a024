"""A tree to a backend, over OTLP: once, and no span twice though the run be interrupted.

OpenTelemetry's own exporters encode, send and retry.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_kernel_trace import attributes
from otel_kernel_trace.indexed import Passed
from otel_kernel_trace.linked import LinkedSpanExporter, batches
from otel_kernel_trace.record import read_record, with_attributes
from otel_kernel_trace.reference import Written
from otel_kernel_trace.sending.connection import Connection
from otel_kernel_trace.sending.encodable import encodable, ended
from otel_kernel_trace.sending.endpoint import Endpoint, SendError, headers_of
from otel_kernel_trace.sending.sent import Key, SentSpans, key_of
from otel_kernel_trace.transfer import Told, whole_spans
from otel_kernel_trace.written import remember

__all__ = ["Delivered", "Endpoint", "SendError", "SentSpans", "headers_of", "send_tree"]


@dataclass(slots=True)
class Delivered:
    """What a run sent, and what it did not."""

    spans: int = 0
    """Sent, and taken by the backend."""
    known: int = 0
    """Sent by an earlier run."""
    pending: int = 0
    """Begun and not ended, and left out."""
    without_id: int = 0
    """Left out: the protocol has no span without ids."""
    rejected: int = 0
    """Refused by the backend one by one."""
    reason: str = ""
    """Why, in the backend's words."""
    passed: Passed = field(default_factory=Passed)


def send_tree(
    log_dir: str,
    endpoint: Endpoint,
    *,
    headers: Mapping[str, str] | None = None,
    preview_chars: int | None = None,
    whole: bool = False,
    pending: bool = False,
    again: bool = False,
    on_span: Callable[[], object] = lambda: None,
    on_count: Callable[[int], object] = lambda _: None,
) -> Delivered:
    """Send the spans of a tree to a backend, those that it has by an earlier run excepted.

    Long texts go as previews with references to their files, as of
    :class:`~otel_kernel_trace.LinkedSpanExporter`. How long a request may take, how it is
    compressed and certificates are up to the environment, as ``OTEL_EXPORTER_OTLP_TIMEOUT``.

    Args:
        log_dir: root of the tree, which is only read.
        endpoint: where to.
        headers: sent with every request.
        preview_chars: characters that are left of a long text; default: that of the environment.
        whole: send all of every text.
        pending: send what has begun and not ended too, with its start for an end.
        again: forget what was sent before.
        on_span, on_count: as of :func:`~otel_kernel_trace.transfer.whole_spans`.

    Raises:
        SendError: the backend did not take them, or its exporter is not there. What it
            took before is remembered.
        OSError: the tree can't be read, or what was sent not be remembered.
        ValueError: ``preview_chars`` is none.
    """
    done = Delivered()
    sent = SentSpans(log_dir, endpoint)
    if again:
        sent.forget()
    sent.load()
    is_known: set[Key] = set()

    def is_wanted(span: ReadableSpan) -> bool:
        key = key_of(span)
        if key is None:
            done.without_id += 1
        elif span.end_time is None and not pending:
            done.pending += 1
        elif key in sent or key in is_known:
            done.known += 1
        else:
            is_known.add(key)  # two shards may have the same line
            return True
        return False

    with Connection(endpoint, headers or {}) as line:
        sent.prepare()
        told = whole_spans(log_dir, done.passed, is_wanted=is_wanted, on_span=on_span, on_count=on_count)
        keys: dict[int, Key] = {}
        shortened = _shortened(told, os.path.realpath(log_dir), sys.maxsize if whole else preview_chars, keys)
        for batch in batches(shortened):
            if not batch:
                continue
            rejected = line.send(batch)
            of_batch = [keys.pop(id(span)) for span in batch]
            if rejected:
                done.rejected += rejected
                done.reason = line.reason
            else:
                sent.add(of_batch)
            done.spans += len(batch) - rejected
    return done


def _shortened(
    told: Iterable[Told], log_dir: str, preview_chars: int | None, keys: dict[int, Key]
) -> Iterator[ReadableSpan]:
    """Spans as a backend gets them; ``keys`` has theirs by ``id()`` from then on."""
    taken = _Taken()
    linked = LinkedSpanExporter(taken, preview_chars)
    for one in told:
        record = read_record(one.span)
        given = dict(one.whole)
        if record is None:
            given.pop(attributes.LAYOUT, None)  # a model call has nothing of ours
        whole = ended(with_attributes(one.span, given))
        if record is not None:
            # As if it had been recorded just now: where its texts are.
            remember(whole, log_dir, Written(record.step or 0, one.references))
        linked.export([whole])
        span = encodable(taken.spans.pop())
        key = key_of(one.span)
        assert key is not None
        keys[id(span)] = key
        yield span


class _Taken(SpanExporter):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass
