"""Secrets out of texts, before these reach a file, the index, a log line or another exporter."""

from otel_kernel_trace.redaction.patterns import KINDS
from otel_kernel_trace.redaction.redactor import FAILED, Redacted, Redactor, marker

__all__ = ["FAILED", "KINDS", "Redacted", "Redactor", "marker"]
