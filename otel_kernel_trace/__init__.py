"""Traces of AI kernel generation: OpenTelemetry spans, and a tree of plain text files."""

from otel_kernel_trace.actions import ActionType
from otel_kernel_trace.exporter import KernelTraceSpanExporter
from otel_kernel_trace.trace import Trace
from otel_kernel_trace.tracer import Action, KernelTracer, VerifierAction

__all__ = ["Action", "ActionType", "KernelTraceSpanExporter", "KernelTracer", "Trace", "VerifierAction"]
