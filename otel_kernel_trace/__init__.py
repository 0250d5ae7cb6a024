"""Traces of AI kernel generation: OpenTelemetry spans, and a tree of plain text files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_kernel_trace.actions import ActionType
    from otel_kernel_trace.builder.logger import TracingLogger
    from otel_kernel_trace.builder.profiler import LayerProfiler
    from otel_kernel_trace.checking import check_log_health
    from otel_kernel_trace.configuration import configure
    from otel_kernel_trace.exporter import KernelTraceSpanExporter
    from otel_kernel_trace.linked import LinkedSpanExporter
    from otel_kernel_trace.processor import KernelTraceSpanProcessor
    from otel_kernel_trace.redaction.exporter import RedactingSpanExporter
    from otel_kernel_trace.redaction.redactor import Redactor
    from otel_kernel_trace.stages.runs import Run
    from otel_kernel_trace.stages.stage import Stage, stage
    from otel_kernel_trace.trace import Trace
    from otel_kernel_trace.tracer import KernelTracer
    from otel_kernel_trace.working import Action, VerifierAction

__all__ = [
    "Action",
    "ActionType",
    "KernelTraceSpanExporter",
    "KernelTraceSpanProcessor",
    "KernelTracer",
    "LayerProfiler",
    "LinkedSpanExporter",
    "RedactingSpanExporter",
    "Redactor",
    "Run",
    "Stage",
    "Trace",
    "TracingLogger",
    "VerifierAction",
    "check_log_health",
    "configure",
    "stage",
]

# Loaded when first asked for: KernelTracer needs OpenTelemetry's API alone, and a library
# that uses it should not make every program load the SDK.
_HOMES = {
    "Action": "working",
    "ActionType": "actions",
    "KernelTraceSpanExporter": "exporter",
    "KernelTraceSpanProcessor": "processor",
    "KernelTracer": "tracer",
    "LayerProfiler": "builder.profiler",
    "LinkedSpanExporter": "linked",
    "RedactingSpanExporter": "redaction.exporter",
    "Redactor": "redaction.redactor",
    "Run": "stages.runs",
    "Stage": "stages.stage",
    "Trace": "trace",
    "TracingLogger": "builder.logger",
    "VerifierAction": "working",
    "check_log_health": "checking",
    "configure": "configuration",
    "stage": "stages.stage",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
