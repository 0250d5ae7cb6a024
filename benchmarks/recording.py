"""What it costs to record an action, side by side with other ways to put it on disk.

    pip install . opentelemetry-exporter-otlp-json-file
    python benchmarks/recording.py [--rounds 5] [--records 1000] [FOLDER ...]

All ways run in one process, in turn, in several rounds, and so on one machine in one
state. The table has the median of the rounds' median times per record, and the ratio
to the bare limit. A record is a prompt of 20 kB, a reasoning of 8 kB and a JSON reply
of 4 kB.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor, SpanExporter

from otel_kernel_trace import ActionType, KernelTracer, KernelTraceSpanExporter, Trace, attributes, configure
from otel_kernel_trace.reply import document

Recorder = Callable[[ReadableSpan], None]
"""Records the action whose span it is given; those that make spans themselves take its step."""
Way = Callable[[Path, ExitStack], Recorder]

OP, TASK = "exp_add_op", "123"
PROMPT = "Write the kernel so that every block of 128 elements stays in fast memory.\n" * 270
REASONING = "The reduction goes over the last axis, hence one row for each program.\n" * 115
CODE = "    acc = tl.sum(tl.load(x + offsets, mask=offsets < n), axis=0)  # one row\n" * 47
REPLY = json.dumps({"code": CODE, "description": "One program a row; masked at the end of the row."})


def action_span(step: int) -> ReadableSpan:
    """A finished span to record, made off the clock."""
    span = _spans.start_span("DO_CODER", attributes=attributes_of(step))
    span.end()
    assert isinstance(span, ReadableSpan)
    return span


def attributes_of(step: int) -> attributes.Attributes:
    return {
        **attributes.of_action(OP, TASK, step, "DO_CODER"),
        **attributes.of_parts({"prompt": PROMPT, "reasoning": REASONING, "result": REPLY}),
    }


_spans = TracerProvider(shutdown_on_exit=False).get_tracer("benchmark")


def bare_limit(folder: Path, _: ExitStack) -> Recorder:
    """Encode, exclusive create, write, close, atomic publish: what can't be left out."""
    os.makedirs(folder / OP)
    os.makedirs(folder / "tmp")
    result = document(REPLY)
    step = 0

    def record(_: ReadableSpan) -> None:
        nonlocal step
        step += 1
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
    """What a program does that has no tracer: it parses the reply, and nothing is atomic."""
    step = 0

    def record(_: ReadableSpan) -> None:
        nonlocal step
        step += 1
        os.makedirs(folder / OP, exist_ok=True)
        for part, text in (("prompt", PROMPT), ("reasoning", REASONING), ("result", document(REPLY))):
            path = f"{folder}/{OP}/I{TASK}_S{step:02d}_{OP}_DO_CODER_{part}.txt"
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    return record


def span_to(exporter: SpanExporter, stack: ExitStack) -> Recorder:
    """Span made, ended and exported at once."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stack.callback(provider.shutdown)
    tracer = provider.get_tracer("benchmark")
    step = 0

    def record(_: ReadableSpan) -> None:
        nonlocal step
        step += 1
        tracer.start_span("DO_CODER", attributes=attributes_of(step)).end()

    return record


def otlp_json_file(folder: Path, stack: ExitStack) -> Recorder:
    from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter

    return span_to(FileSpanExporter(path=str(folder / "spans.jsonl")), stack)


def console_to_file(folder: Path, stack: ExitStack) -> Recorder:
    file = stack.enter_context((folder / "spans.json").open("w", encoding="utf-8"))
    return span_to(ConsoleSpanExporter(out=file), stack)


def ours_export(folder: Path, _: ExitStack) -> Recorder:
    exporter = KernelTraceSpanExporter(folder)
    return lambda span: exporter.export((span,)) and None


def ours_trace(folder: Path, _: ExitStack) -> Recorder:
    trace = Trace(OP, TASK, folder)
    return lambda _: trace.insert_designer_or_coder_record(REPLY, PROMPT, REASONING, ActionType.DO_CODER)


def ours_processor(folder: Path, stack: ExitStack) -> Recorder:
    """Prompt on disk at the start, the rest at the end, and a line in the index for both."""
    provider = configure(folder, tracer_provider=TracerProvider(shutdown_on_exit=False))
    stack.callback(provider.shutdown)
    tracer = provider.get_tracer("benchmark")
    step = 0

    def record(_: ReadableSpan) -> None:
        nonlocal step
        step += 1
        given = attributes_of(step)
        begun = {name: value for name, value in given.items() if not name.endswith(("reasoning", "result"))}
        span = tracer.start_span("DO_CODER", attributes=begun)
        span.set_attributes({name: value for name, value in given.items() if name not in begun})
        span.end()

    return record


def ours_tracer(folder: Path, stack: ExitStack) -> Recorder:
    provider = configure(folder, tracer_provider=TracerProvider(shutdown_on_exit=False))
    stack.callback(provider.shutdown)
    tracer = stack.enter_context(KernelTracer(OP, TASK, provider))

    def record(_: ReadableSpan) -> None:
        with tracer.coder(prompt=PROMPT) as action:
            action.record(result=REPLY, reasoning=REASONING)

    return record


WAYS: dict[str, Way] = {
    "bare limit": bare_limit,
    "plain recorder, not atomic": plain_recorder,
    "official OTLP JSON file exporter": otlp_json_file,
    "ConsoleSpanExporter to a file": console_to_file,
    "ours: export alone": ours_export,
    "ours: KernelTraceSpanProcessor": ours_processor,
    "ours: Trace.insert_…": ours_trace,
    "ours: KernelTracer": ours_tracer,
}


def microseconds(way: Way, root: Path, records: int) -> float:
    """Median time of a record, after some to warm up."""
    folder = root / "benchmark"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    times = []
    with ExitStack() as stack:
        record = way(folder, stack)
        for step in range(1, records + 1):
            span = action_span(step)
            begin = time.perf_counter_ns()
            record(span)
            times.append(time.perf_counter_ns() - begin)
    shutil.rmtree(folder)
    return statistics.median(times[records // 10 :]) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description="What it costs to record an action.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=1000, help="records a round")
    parser.add_argument("folders", nargs="*", type=Path, help="where to write, by default tmpfs and disk")
    arguments = parser.parse_args()
    folders = arguments.folders or [Path("/dev/shm"), Path(tempfile.gettempdir())]
    for folder in folders:
        times: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(arguments.rounds):
            for name, way in WAYS.items():
                times[name].append(microseconds(way, folder, arguments.records))
        bare = statistics.median(times["bare limit"])
        print(f"| in {folder} | µs a record | ratio |\n|---|---:|---:|")
        for name, rounds in times.items():
            ratio = statistics.median(
                mine / limit for mine, limit in zip(rounds, times["bare limit"], strict=True)
            )
            print(f"| {name} | {statistics.median(rounds):.0f} | {ratio:.2f} |")
        print(f"\n{arguments.rounds} rounds of {arguments.records} records; bare limit {bare:.0f} µs\n")


if __name__ == "__main__":
    main()
