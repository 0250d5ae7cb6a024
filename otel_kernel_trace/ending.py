"""What is to be done just before a span ends, while it still takes attributes.

OpenTelemetry has no such moment: a processor sees a span when its attributes are sealed.
So the span's own ``end`` is made to do it first, whoever ends it.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable

from opentelemetry.trace import Span


def before_end(span: Span, call: Callable[[Span], object]) -> None:
    """Have ``call(span)`` called once when the span is about to end, in the thread that ends it.

    Keeps ``call``, not the span. What it raises is dropped. A span whose class takes no
    attributes of ours is left as it is, and ``call`` is not called.
    """
    reference = weakref.ref(span)
    has_own = "end" in getattr(span, "__dict__", {})
    of_before = span.end if has_own else None  # put there by another call, and keeps no span either

    def end(end_time: int | None = None) -> None:
        ending = reference()
        if ending is None:
            return
        if ending.is_recording():
            with contextlib.suppress(Exception):
                call(ending)
        if of_before is not None:
            of_before(end_time)
        else:
            type(ending).end(ending, end_time)

    with contextlib.suppress(AttributeError, TypeError):
        span.end = end  # type: ignore[method-assign]  # of this one span alone
