"""What a builder such as TensorRT's says while it makes an engine: lines in, values out."""

from otel_kernel_trace.builder.lines import BuilderLine, Kind, Severity, read_line
from otel_kernel_trace.builder.summary import BuilderSummary, read_log

__all__ = ["BuilderLine", "BuilderSummary", "Kind", "Severity", "read_line", "read_log"]
