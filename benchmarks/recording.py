"""What it costs to record an action, side by side with other ways to put it on disk.

    python benchmarks/recording.py [--rounds 5] [--records 1000] [DIR ...]

One process, all ways in turn, in several rounds; the table has the median of every
way's per-record times and its ratio to the bare limit. DIR: where to write, by
default a tmpfs, if there is one, and the folder for temporary files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor, SpanExporter

from otel_kernel_trace import ActionType, KernelTracer, KernelTraceSpanExporter, Trace, attributes
from otel_kernel_trace.reply import document

Recorder = Callable[[int], None]
Way = Callable[[Path, ExitStack], Recorder]

OP, TASK = "exp_add_op", "123"
PROMPT = "Write the kernel so that every block of 128 elements stays in fast memory.\n" * 270
REASONING = "The reduction goes over the last axis, hence one row for each program.\n" * 115
CODE = "    acc = tl.sum(tl.load(x + offsets, mask=offsets < n), axis=0)  # one row\n" * 47
REPLY = json.dumps({"code": CODE, "description": "One program a row; masked at the end of the row."})


def bare_limit(folder: Path, _: ExitStack) -> Recorder:
    """Encode, exclusive create, write, close, atomic publish: what cannot be left out."""
    os.makedirs(folder / OP)
    os.makedirs(folder / "tmp")
    result = document(REPLY)

    def record(step: int) -> None:
        for part, text in (("prompt", PROMPT), ("reasoning", REASONING), ("result", result)):
            name = f"I{TASK}_S{step:02d}_{OP}_DO_CODER_{part}.txt"
            temporary = f"{folder}/tmp/{name}"
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            os.write(fd, text.encode())
            os.close(fd)
            os.link(temporary, f"{folder}/{OP}/{name}")
            os.unlink(temporary)

    return record


def plain_recorder(folder: Path, _: ExitStack) -> Recorder:
    """What a program does that has no tracer: nothing is atomic."""

    def record(step: int) -> None:
        os.makedirs(folder / OP, exist_ok=True)
        for part, text in (("prompt", PROMPT), ("reasoning", REASONING), ("result", document(REPLY))):
            with open(
                f"{folder}/{OP}/I{TASK}_S{step:02d}_{OP}_DO_CODER_{part}.txt", "w", encoding="utf-8"
            ) as file:
                file.write(text)

    return record


def through(exporter: SpanExporter, stack: ExitStack) -> Recorder:
    """A span made and ended, and exported at once."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stack.callback(provider.shutdown)
    tracer = provider.get_tracer("benchmark")

    def record(step: int) -> None:
        tracer.start_span("DO_CODER", attributes=attributes_of(step)).end()

    return record


def attributes_of(step: int) -> attributes.Attributes:
    return {
        **attributes.of_action(OP, TASK, step, "DO_CODER"),
        **attributes.of_parts({"prompt": PROMPT, "reasoning": REASONING, "result": REPLY}),
    }


def otlp_json_file(folder: Path, stack: ExitStack) -> Recorder:
    from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter

    return through(FileSpanExporter(path=str(folder / "spans.jsonl")), stack)


def console_to_file(folder: Path, stack: ExitStack) -> Recorder:
    file = stack.enter_context(open(folder / "spans.json", "w", encoding="utf-8"))
    return through(ConsoleSpanExporter(out=file), stack)


def ours_export(folder: Path, stack: ExitStack) -> Recorder:
    """``export`` alone: the spans are made beforehand, in the loop but off the clock."""
    exporter = KernelTraceSpanExporter(folder)
    spans = TracerProvider(shutdown_on_exit=False).get_tracer("benchmark")

    def prepare(step: int) -> tuple[ReadableSpan]:
        span = spans.start_span("DO_CODER", attributes=attributes_of(step))
        span.end()
        assert isinstance(span, ReadableSpan)
        return (span,)

    def record(step: int) -> None:
        exporter.export(prepared.pop(step))

    prepared: dict[int, tuple[ReadableSpan]] = {}
    record.prepare = lambda step: prepared.__setitem__(step, prepare(step))  # type: ignore[attr-defined]
    return record


def ours_trace(folder: Path, _: ExitStack) -> Recorder:
    trace = Trace(OP, TASK, folder)
    return lambda _: trace.insert_designer_or_coder_record(REPLY, PROMPT, REASONING, ActionType.DO_CODER)


def ours_tracer(folder: Path, stack: ExitStack) -> Recorder:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(KernelTraceSpanExporter(folder)))
    stack.callback(provider.shutdown)
    tracer = KernelTracer(OP, TASK, provider)

    def record(_: int) -> None:
        with tracer.coder(prompt=PROMPT) as action:
            action.record(result=REPLY, reasoning=REASONING)

    return record
