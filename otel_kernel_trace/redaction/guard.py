"""Where redaction has its effects: what is on the way out is cleaned, counted, and kept for the audit."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from weakref import WeakSet

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.attributes import INCOMPLETE
from otel_kernel_trace.busy import busy
from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.live import Live, Whole, known
from otel_kernel_trace.record import attributes_of, incomplete_of, known_attributes, limit_of
from otel_kernel_trace.redaction.audit import Audit
from otel_kernel_trace.redaction.logs import redact_log_lines
from otel_kernel_trace.redaction.redactor import FAILED, Redactor
from otel_kernel_trace.redaction.spans import (
    Parts,
    Secrets,
    SpanRedactor,
    Unredacted,
    copy_of,
    empty,
    replace_in,
    with_counts,
)

_MAX_PENDING = 1000


@dataclass(frozen=True, slots=True)
class Redactions:
    """What one exporter took out in this process."""

    secrets: Mapping[str, int]
    """How many, by kind. A text that could not be looked through, and was replaced whole, is ``failed``."""
    texts: int
    """Texts that had them."""
    audited: int
    """Texts of these that the audit has."""
    unaudited: int
    """Texts that it should have, and could not be written."""


class Guard:
    """Stands between spans and everything that leaves the process. Thread-safe; reads no clock.

    Args:
        redactor: finds the secrets.
        audit: what keeps the texts as they were, if anything does.
        report: is told what went wrong.
        count: is told how many secrets were found, by kind.
    """

    def __init__(
        self,
        redactor: Redactor,
        audit: Audit | None,
        report: Callable[[str, Exception], None],
        count: Callable[[Mapping[str, int]], None],
    ) -> None:
        self.redactor = redactor
        self._spans = SpanRedactor(redactor)
        self._audit = audit
        self._report = report
        self._count = count
        # Of those of which it is known: the same span comes to several.
        self._clean: WeakSet[ReadableSpan] = WeakSet()
        self._found: deque[Mapping[str, int]] = deque()
        self._secrets: Counter[str] = Counter()
        self._texts = self._audited = self._unaudited = 0
        self._lock = threading.Lock()
        after_fork_in_child(self)
        redact_log_lines(redactor)

    @property
    def figures(self) -> Redactions:
        with self._lock:
            self._sum_up()
            secrets = MappingProxyType(dict(self._secrets))
            return Redactions(secrets, self._texts, self._audited, self._unaudited)

    def name(self, text: str) -> str:
        """A name without secrets: of an op, a task, a folder. It is counted where a span has it."""
        return self.redactor.redact(text).text

    def attributes(self, given: Mapping[str, AttributeValue], found: Secrets) -> Mapping[str, AttributeValue]:
        """Attributes without secrets, and with how many they had; :meth:`settle` what was found."""
        clean = self._spans.attributes(given, found)
        return with_counts(clean, found.counts)

    def settle(self, found: Secrets, trace_id: int, span_id: int) -> None:
        """Count what was found, and keep it for the audit."""
        self._settle(found.texts, trace_id, span_id)

    def cleaned(self, span: ReadableSpan, *, has_begun: bool = False) -> tuple[ReadableSpan, Whole]:
        """A span without secrets, and its attributes before the SDK's limits without secrets.

        Args:
            span: any; it stays as it is.
            has_begun: whether it has not ended, and comes again.

        Raises:
            Exception: it can't be looked through; nothing of it is to be written.
        """
        given = known_attributes(span)
        if span in self._clean:
            return span, given
        parts = self._parts(span, given, has_begun=has_begun)
        if parts is None:
            return span, given
        return copy_of(span, parts), Whole(parts.attributes, given.known, given.is_all)

    def hide(self, span: ReadableSpan) -> None:
        """Take the secrets out of an ended span itself, before other processors get it. Never raises."""
        if span in self._clean:
            return
        try:
            given = known_attributes(span)
            limit = limit_of(span)
            parts = self._parts(span, given)
            if parts is None:
                self._clean.add(span)
                return
            names = dict(zip(given.attributes, parts.attributes, strict=False))
            seen = {names[name]: parts.attributes[names[name]] for name in attributes_of(span)}
            counts = {name: value for name, value in parts.attributes.items() if name not in given.attributes}
            live = known(span.context.trace_id, span.context.span_id) if span.context else None
            if live is not None:
                _replace_whole(live, names, parts.attributes)
            replace_in(span, parts._replace(attributes={**seen, **counts}), limit)
            self._clean.add(span)
        except Exception as error:  # noqa: BLE001 - the program goes on, and nothing of the span leaves it
            self._failed(error)
            try:
                replace_in(span, empty(span), None)
            except Exception as worse:  # noqa: BLE001 - an SDK that nobody knows yet
                self._report("a span without its secrets for other exporters", worse)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._found.clear()  # the parent's are the parent's
        self._secrets.clear()
        self._texts = self._audited = self._unaudited = 0

    def _parts(self, span: ReadableSpan, given: Whole, *, has_begun: bool = False) -> Parts | None:
        parts, found = self._spans.parts(span, given.attributes, limit_of(span))
        if parts is None:
            return None
        context = span.context
        trace_id, span_id = (context.trace_id, context.span_id) if context else (0, 0)
        live = known(trace_id, span_id)
        told = live.told if live is not None else {}
        new = [text for text in found.texts if told.get(text.where) != text.text]
        if live is not None and has_begun:
            live.told = {text.where: text.text for text in found.texts}
        self._settle(new, trace_id, span_id)
        clean = parts.attributes
        if found.texts and (incomplete := incomplete_of(span, given)):
            clean = {**clean, INCOMPLETE: self.name(incomplete)}  # its texts have other lengths now
        return parts._replace(attributes=with_counts(clean, found.counts))

    def _settle(self, texts: list[Unredacted], trace_id: int, span_id: int) -> None:
        if not texts:
            return
        for text in texts:
            self._found.append(text.counts)
            self._count(text.counts)
        if len(self._found) > _MAX_PENDING and self._lock.acquire(blocking=False):
            try:
                self._sum_up()
            finally:
                self._lock.release()
        if self._audit is not None and not busy.puts_off(lambda: self._keep(texts, trace_id, span_id)):
            self._keep(texts, trace_id, span_id)

    def _keep(self, texts: list[Unredacted], trace_id: int, span_id: int) -> None:
        assert self._audit is not None
        with busy:
            for text in texts:
                try:
                    self._audit.add(trace_id, span_id, text)
                    self._audited += 1
                except Exception as error:  # noqa: BLE001 - the program that we watch goes on
                    self._unaudited += 1
                    self._report(f"a text for the audit, in {self._audit.folder}, not", error)

    def _failed(self, error: Exception) -> None:
        self._found.append({FAILED: 1})
        # Not the error's own words, which may be the text.
        self._report("a span whose secrets could not be taken out", RuntimeError(type(error).__name__))

    def _sum_up(self) -> None:
        while self._found:
            try:
                self._secrets.update(self._found.popleft())
            except IndexError:
                break
            self._texts += 1


def _replace_whole(live: Live, names: Mapping[str, str], clean: Mapping[str, AttributeValue]) -> None:
    """Have the texts that are remembered before the SDK's limits be without secrets, too."""
    live.whole = {names[name]: clean[names[name]] for name in live.whole if name in names}
    live.at_start = {names[name]: clean[names[name]] for name in live.at_start if name in names}
