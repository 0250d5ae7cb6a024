"""Traces of AI kernel generation: OpenTelemetry spans, and a tree of plain text files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_kernel_trace.actions import ActionType
    from otel_kernel_trace.exporter import KernelTraceSpanExporter
    from otel_kernel_trace.trace import Trace
    from otel_kernel_trace.tracer import Action, KernelTracer, VerifierAction

__all__ = ["Action", "ActionType", "KernelTraceSpanExporter", "KernelTracer", "Trace", "VerifierAction"]

# Loaded when first asked for: KernelTracer needs OpenTelemetry's API alone, and a library
# that uses it should not make every program load the SDK.
_HOMES = {
    "Action": "tracer",
    "ActionType": "actions",
    "KernelTraceSpanExporter": "exporter",
    "KernelTracer": "tracer",
    "Trace": "trace",
    "VerifierAction": "tracer",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
