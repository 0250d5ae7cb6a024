"""What a line of a builder's log costs, beside other loggers, and how reading a saved log grows.

    pip install .
    python benchmarks/builder.py [--lines 100000] [--rounds 5]

The lines are a verbose build of TensorRT's: one in eight tells of a fusion, half of tactics that
were timed, the others are only read. All loggers take the same lines in one process, in turn, in
several rounds; the table has medians, the span's end with all that is put on it included. Logs
that a stranger made to hurt cost by their lines, not by what stands in them.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

from opentelemetry.sdk.trace import TracerProvider

from otel_kernel_trace import TracingLogger
from otel_kernel_trace.builder import read_log

Line = tuple[int, str]

_SHAPES: tuple[Line, ...] = (
    (4, "ConvReluFusion: Fusing /features/{n}/Conv with /features/{n}/Relu"),
    (4, "Running: ConvReluFusion on /features/{n}/Conv"),
    (4, "Tactic Name: sm80_xmma_fprop_implicit_gemm_f32f32_tilesize{n}x32x8 Tactic: 0xcb8a43f7 Time: 0.06"),
    (4, "Tactic: 0x{n:016x} Time: 0.0567589"),
    (4, "Tactic: {n} Time: 0.129463"),
    (4, "Tactic: 0xa9366041633a5135 Time: 0.0{n}"),
    (
        4,
        "--------------- Timing Runner: /features/{n}/Conv + /features/{n}/Relu (CaskConvolution[0x8000])",
    ),
    (3, "Set shape of input tensor input_{n} for optimization profile 0 to: MIN=1x3x224x224 OPT=1x3x224x224"),
)
_LETTERS = "FEWIV"
_HOSTILE: dict[str, Callable[[int], str]] = {
    "one line of a fusion": lambda n: "Fusing " * (n // 7),
    "refusals that come to nothing": lambda n: ("cannot " * 500 + "fus\n") * (n // 3504),
    "memory without an end": lambda n: ("[MemUsageChange] a: CPU " + "GPU +" * 800 + "\n") * (n // 4025),
    "brackets": lambda n: "[" * n,
    "tags": lambda n: "[TRT] [V] \n" * (n // 11),
    "colours": lambda n: ("\x1b[0m" * 1000 + "\n") * (n // 4001),
    "line ends": lambda n: "\n" * n,
}
_tracer = TracerProvider(shutdown_on_exit=False).get_tracer("benchmark")


def lines_of(number: int) -> list[Line]:
    """So many lines, no two alike."""
    return [
        (severity, shape.format(n=n))
        for n, (severity, shape) in enumerate(_SHAPES * (number // len(_SHAPES) + 1))
    ][:number]


def with_list(lines: list[Line]) -> None:
    """The least that a logger can do."""
    kept: list[Line] = []
    append = kept.append
    for severity, message in lines:
        append((severity, message))


def with_logging(lines: list[Line]) -> None:
    """The standard library's, to a file, with the time before each line."""
    logger = logging.Logger("builder", logging.DEBUG)
    with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
        handler = logging.FileHandler(file.name)
        handler.setFormatter(logging.Formatter("%(asctime)s [%(levelname)s] %(message)s"))
        logger.addHandler(handler)
        for severity, message in lines:
            logger.log(50 - 10 * severity, message)
        handler.close()


def with_tracing(lines: list[Line]) -> None:
    """Ours, under a span."""
    with _tracer.start_as_current_span("build"):
        log = TracingLogger().log
        for severity, message in lines:
            log(severity, message)


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def most_memory(call: Callable[[], object]) -> float:
    """Megabytes, above what there was."""
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="What a builder's line costs.")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    lines = lines_of(arguments.lines)
    ways = {"list.append": with_list, "logging to a file": with_logging, "TracingLogger": with_tracing}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            times[name].append(seconds(partial(way, lines)))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    print(f"| {len(lines)} lines | µs a line | ratio to list.append | ratio to logging |")
    print("|---|---:|---:|---:|")
    for name, taken in medians.items():
        print(
            f"| {name} | {taken / len(lines) * 1e6:.2f} | {taken / medians['list.append']:.1f} "
            f"| {taken / medians['logging to a file']:.2f} |"
        )
    short = "".join(f"[11/20/2026-10:00:00] [{_LETTERS[s]}] [TRT] {message}\n" for s, message in lines)
    for log in (short, short * 2):
        taken = statistics.median(seconds(partial(read_log, log)) for _ in range(3))
        print(f"read_log, {len(log) / 1e6:.1f} MB: {taken:.2f} s")
    for name, shape in _HOSTILE.items():
        log = shape(10_000_000)
        print(f"read_log, {len(log) / 1e6:.1f} MB of {name}: {seconds(partial(read_log, log)):.2f} s")
    for number in (len(lines), 10 * len(lines)):
        many = lines_of(number)
        chars = sum(len(message) for _, message in many) / 1e6
        memory = most_memory(partial(with_tracing, many))
        print(f"TracingLogger, {number} lines of {chars:.0f} MB: {memory:.0f} MB")


if __name__ == "__main__":
    main()
