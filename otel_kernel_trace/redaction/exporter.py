"""Spans for another exporter, without the secrets in their texts."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_kernel_trace.record import attributes_of, limit_of
from otel_kernel_trace.redaction.redactor import Redactor
from otel_kernel_trace.redaction.spans import SpanRedactor, copy_of, empty, with_counts
from otel_kernel_trace.written import pass_on

_logger = logging.getLogger("otel_kernel_trace")


class RedactingSpanExporter(SpanExporter):
    """Sends spans on to another exporter without the secrets in them.

    For exporters that get their spans from no provider of :func:`~otel_kernel_trace.configure`
    with ``redact``, or before it. The spans themselves stay as they are: copies are sent, with
    ``kernel_trace.redacted`` among their attributes. Around a
    :class:`~otel_kernel_trace.LinkedSpanExporter`, not in it: previews may cut a secret in two.

    A span that can't be looked through is sent as its ids and times alone. Thread-safe if the
    exporter is.

    Args:
        exporter: any exporter, as of OTLP.
        redactor: default: one of all built-in rules.
    """

    def __init__(self, exporter: SpanExporter, redactor: Redactor | None = None) -> None:
        self._exporter = exporter
        self._spans = SpanRedactor(Redactor() if redactor is None else redactor)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send copies on; what the other exporter says."""
        return self._exporter.export([self._redacted(span) for span in spans])

    def shutdown(self) -> None:
        """Shut the other exporter down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """What the other exporter says."""
        return self._exporter.force_flush(timeout_millis)

    def _redacted(self, span: ReadableSpan) -> ReadableSpan:
        try:
            parts, found = self._spans.parts(span, attributes_of(span), limit_of(span))
            if parts is None:
                return span
            given = with_counts(parts.attributes, found.counts)
            copy = copy_of(span, parts._replace(attributes=given))
            pass_on(span, copy)
            return copy
        except Exception as error:  # noqa: BLE001 - a span may have anything
            # Not the error's own words, which may be the text.
            _logger.error(
                "a span is sent without its texts: %s while taking secrets out", type(error).__name__
            )
            return copy_of(span, empty(span))
