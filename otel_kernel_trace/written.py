"""What was written of a span, for as long as somebody still has the span.

Every processor of a provider gets the same ``ReadableSpan``, so that one that comes
later, in a batch, can tell what one before it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from weakref import WeakKeyDictionary

from opentelemetry.sdk.trace import ReadableSpan

from otel_kernel_trace.live import known
from otel_kernel_trace.recent import Recent
from otel_kernel_trace.reference import Written

_NOTHING: Mapping[str, Written | None] = MappingProxyType({})
_shared: Recent[tuple[int, int], Mapping[str, Written | None]] = Recent(2048)
"""A Trace's: the span that it shows to the program's provider is another one than that it writes."""

_written: WeakKeyDictionary[ReadableSpan, dict[str, Written | None]] = WeakKeyDictionary()


def remember(span: ReadableSpan, log_dir: str, written: Written | None) -> None:
    """Remember what the tree at ``log_dir`` has of a span; None: a line in the index alone."""
    _written.setdefault(span, {})[log_dir] = written


def share(span: ReadableSpan) -> None:
    """Have what was written of a span hold for others of the same ids, which were not there yet."""
    if span.context:
        _shared.put((span.context.trace_id, span.context.span_id), written_of(span))


def pass_on(span: ReadableSpan, copy: ReadableSpan) -> None:
    """Have what was written of a span hold for a copy of it."""
    written = written_of(span)
    if written:
        _written[copy] = dict(written)


def written_of(span: ReadableSpan) -> Mapping[str, Written | None]:
    """What was written of a span, by ``log_dir``."""
    written: Mapping[str, Written | None] | None = _written.get(span)
    if written is None and span.context and _shared:
        written = _shared.get((span.context.trace_id, span.context.span_id))
    return _NOTHING if written is None else written


def is_processors(span: ReadableSpan, log_dir: str) -> bool:
    """Whether a processor writes a span to that tree, or has done so."""
    context = span.context
    live = known(context.trace_id, context.span_id) if context else None
    return log_dir in written_of(span) or (live is not None and log_dir in live.begun)
