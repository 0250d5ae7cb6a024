"""A program that already exports its spans over OTLP gains the tree by one line.

    pip install opentelemetry-exporter-otlp-proto-http
    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 python examples/existing_setup.py

Without an endpoint the program runs as it did before, and the tree is all there is.
"""

from __future__ import annotations

import os

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_kernel_trace import KernelTracer, LinkedSpanExporter, configure

# What the program had.
provider = TracerProvider()
if "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    # Around its exporter: long texts become previews that tell where the whole ones are.
    provider.add_span_processor(BatchSpanProcessor(LinkedSpanExporter(OTLPSpanExporter())))
trace.set_tracer_provider(provider)

# The line that it gains: files are there when a span ends, and nothing is lost with the process.
configure("./kernel_trace_logs", tracer_provider=provider)

# Its own spans may stand around the actions, and a span with the attributes set by hand
# is as good as one made through KernelTracer.
pipeline = trace.get_tracer("pipeline")
with pipeline.start_as_current_span("nightly run"), KernelTracer("softmax", "42") as tracer:
    with tracer.coder(prompt="Write softmax in CUDA.") as action:
        action.record(result='{"code": "__global__ void softmax() {}", "description": "a stub"}')
    with tracer.verifier(framework="torch", impl_type="cuda") as check:
        check.record(False, error_log='softmax.cu(1): error: identifier "entry" is undefined\n')
    with pipeline.start_as_current_span("tuning") as span:
        span.set_attributes(
            {
                "kernel_trace.op_name": "softmax",
                "kernel_trace.task_id": "42",
                "kernel_trace.action_type": "autotuner",
                "kernel_trace.part.result": "BLOCK = 128\n",
            }
        )

print("Written below ./kernel_trace_logs/softmax")
