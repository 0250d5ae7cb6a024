"""The lossless way in: on disk when the span ends, and its prompt when it begins."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.busy import busy
from otel_kernel_trace.derivation import action_around, take_from_call
from otel_kernel_trace.exporter import KernelTraceSpanExporter
from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.live import Live, began, known
from otel_kernel_trace.modelcalls import ModelCall, read_model_call
from otel_kernel_trace.record import attributes_of, limit_of
from otel_kernel_trace.sampling import record_what_is_dropped
from otel_kernel_trace.within import within
from otel_kernel_trace.written import written_of

_logger = logging.getLogger("otel_kernel_trace")


class KernelTraceSpanProcessor(SpanProcessor):
    """Writes every action when it ends, in the thread that ends it, sampled or not.

    When a span has ended, its files are in place: nothing queues, so nothing is lost with the
    process. What an action is given when it begins (its prompt, as a rule) is on disk from
    then on. A prompt, reasoning or result that an action was not given is taken from the last
    model call inside it that succeeded, where an instrumentation of the GenAI or OpenInference
    conventions records them; tokens and the model's name go up to the action's span.

    Where the exporter takes secrets out, they are taken out of the ended span itself, whatever
    span it is, so that processors that come after this one have none of them either.

    Thread-safe, and usable in a forked or spawned child. Nothing in here raises: what can't be
    written is counted and logged by the exporter.

    Add it before processors that could block; :func:`~otel_kernel_trace.configure` does.
    Where a sampler drops spans, those of :class:`~otel_kernel_trace.KernelTracer` are
    recorded all the same; for spans that other code makes, ``configure`` wraps the sampler.

    Args:
        exporter: whose tree is written; default: one with the settings of the environment.
    """

    def __init__(self, exporter: KernelTraceSpanExporter | None = None) -> None:
        self.exporter = KernelTraceSpanExporter() if exporter is None else exporter
        self._lock = threading.Lock()
        self._is_shut_down = False
        after_fork_in_child(self)
        record_what_is_dropped()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Put on disk what an action is given at its start, and tell the span its step."""
        if self._is_shut_down:
            return
        try:
            live = began(span)
            if span.parent is not None:
                live.parent = known(span.parent.trace_id, span.parent.span_id)
            live.within = within(parent_context)
            if not _concerns_us(attributes_of(span), live):
                live.begun.setdefault(self.exporter.log_dir, None)
                return
            if busy.is_busy:
                # The garbage collector's or a signal handler's, in the middle of ours: all comes at the end.
                live.begun[self.exporter.log_dir] = None
                return
            begun = self.exporter.begin(span, live)
            if begun is not None:
                live.at_start = attributes_of(span)  # the oldest are the first that go at a limit
                span.set_attribute(attributes.STEP, begun.step)
                span.set_attribute(attributes.LOG_DIR, self.exporter.log_dir)
        except Exception:
            _logger.exception("could not begin span %.100r", span.name)

    def on_end(self, span: ReadableSpan) -> None:
        """Put an action on disk."""
        if busy.is_busy:
            self._hide(span)
        if busy.puts_off(lambda: self.on_end(span)):
            return
        try:
            if self.exporter.log_dir in written_of(span):
                return  # another processor for this tree was faster
            context = span.context
            live = known(context.trace_id, context.span_id) if context else None
            given = attributes_of(span)
            call = read_model_call(given)
            if call is not None and live is not None:
                self._pass_on(call, live, span, given)
            self._hide(span)
            if call is None and not _concerns_us(given, live):
                return
            if live is not None and self.exporter.log_dir in live.begun:
                self.exporter.write(span)
            else:  # begun before this processor was there, or a Trace's
                self.exporter.export((span,))
        except Exception:
            self._hide(span)
            _logger.exception("could not take span %.100r", span.name)

    def keep_steps(self, op_name: str, task_id: str, run: int, steps: int) -> int | None:
        """For :class:`~otel_kernel_trace.KernelTracer`, which hands a task on to another process."""
        try:
            return self.exporter.keep_steps(op_name, task_id, run, steps)
        except Exception as error:  # noqa: BLE001 - the program that we watch goes on
            _logger.warning("no steps are kept on disk for another process: %r", error)
            return None

    def shutdown(self) -> None:
        """Take no more spans."""
        self._is_shut_down = True
        self.exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """True: nothing waits to be written."""
        return self.exporter.force_flush(timeout_millis)

    def after_fork(self) -> None:
        """For a forked child; not for users."""
        self._lock = threading.Lock()

    def _hide(self, span: ReadableSpan) -> None:
        """Take secrets out of an ended span before other processors get it."""
        if self.exporter.guard is not None:
            self.exporter.guard.hide(span)

    def _pass_on(
        self, call: ModelCall, live: Live, ended: ReadableSpan, given: Mapping[str, AttributeValue]
    ) -> None:
        """Give what a model call tells to the action around it."""
        succeeded = ended.status.status_code is not StatusCode.ERROR
        limit = limit_of(ended)
        if limit is not None and all(not isinstance(v, str) or len(v) < limit for v in given.values()):
            limit = None
        action = action_around(live)
        if action is not None:
            with busy, self._lock:
                take_from_call(call, *action, succeeded=succeeded, limit=limit)


def _concerns_us(given: Mapping[str, AttributeValue], live: Live | None) -> bool:
    """False for other people's spans, which are to cost next to nothing."""
    if live is not None and (live.whole or live.at_start):
        return True
    return any(name.startswith(attributes.PREFIX) for name in given)
