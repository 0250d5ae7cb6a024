"""What an action below its level costs, beside a span that is not recorded.

    pip install .
    python benchmarks/levels.py [--rounds 21] [--actions 2000]

A Coder's action with a prompt of 20 kB, and a record of reasoning and reply, whose level is below
``info``. Beside it ``start_as_current_span`` of tracers that record nothing: without a provider,
and of an SDK provider whose sampler drops everything. All ways run in turn in every round, on one
thread; the figures are medians of the rounds' times per action, and the ratios medians of the
rounds' ratios.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from otel_kernel_trace import KernelTracer

PROMPT = "Write the kernel so that every block of 128 elements stays in fast memory.\n" * 270
REASONING = "The reduction goes over the last axis, hence one row for each program.\n" * 115
REPLY = "    acc = tl.sum(tl.load(x + offsets, mask=offsets < n), axis=0)  # one row\n" * 47

Act = Callable[[], None]


def spans_of(tracer: trace.Tracer) -> Act:
    """A span as a program makes it by hand, with nothing put on it."""

    def act() -> None:
        with tracer.start_as_current_span("DO_CODER"):
            pass

    return act


def coder_of(tracer: KernelTracer) -> Act:
    def act() -> None:
        with tracer.coder(prompt=PROMPT) as action:
            action.record(result=REPLY, reasoning=REASONING)

    return act


def conductor_of(tracer: KernelTracer) -> Act:
    def act() -> None:
        with tracer.conductor(prompt=PROMPT) as action:
            action.record(result=REPLY, reasoning=REASONING)

    return act


def verifier_of(tracer: KernelTracer) -> Act:
    def act() -> None:
        with tracer.verifier() as action:
            action.record(False, PROMPT, {"speedup": 0.8}, implementation=REPLY)

    return act


def ways() -> dict[str, Act]:
    """By name; the first is what the others are measured by."""
    recording = TracerProvider(shutdown_on_exit=False)
    dropping = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    off, error, part_off = (
        KernelTracer("swish", "1", recording, level=level) for level in ("off", "error", "info,coder=off")
    )
    with off.coder():
        pass  # for the Conductor to judge
    return {
        "span without a provider": spans_of(trace.get_tracer("benchmark")),
        "span of a no-op provider": spans_of(trace.NoOpTracerProvider().get_tracer("benchmark")),
        "span that the sampler drops": spans_of(dropping.get_tracer("benchmark")),
        "Coder, level=off": coder_of(off),
        "Coder, level=error": coder_of(error),
        "Coder, level=info,coder=off": coder_of(part_off),
        "Verifier, level=off": verifier_of(off),
        "Conductor, level=off": conductor_of(off),
    }


def microseconds(act: Act, actions: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(actions):
        act()
    return (time.perf_counter_ns() - begin) / actions / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description="What an action below its level costs.")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--actions", type=int, default=2000, help="actions a round")
    arguments = parser.parse_args()
    acts = ways()
    times: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(arguments.rounds):
        for name, act in acts.items():
            times[name].append(microseconds(act, arguments.actions))
    references = list(acts)[:3]
    print("| | µs an action | " + " | ".join(f"ratio to a {name}" for name in references) + " |")
    print("|---|---:|---:|---:|---:|")
    for name, rounds in times.items():
        ratios = (
            statistics.median(mine / its for mine, its in zip(rounds, times[reference], strict=True))
            for reference in references
        )
        told = " | ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"| {name} | {statistics.median(rounds):.2f} | {told} |")


if __name__ == "__main__":
    main()
