"""What a pipeline's own time is where its backend does not answer, beside its time without one.

    pip install . opentelemetry-exporter-otlp-proto-http
    python benchmarks/unreachable.py [--rounds 7] [--actions 200] [FOLDER]

Every run is a process of its own, and every run with a backend is one of a pair: beside it,
before it and after it by turns, goes a run without. All do the same work: some 20 ms of
computing an action, and a prompt of 20 kB, a reply of 8 kB and a reasoning of 4 kB. The time
runs from the first action to the last. The exporter is in a hurry: it sends what there is
every 0.2 s and not every 5, and gives up after 1 s and not 10, so that within the few seconds
it has as much to do for each action as in a run of hours. What shutting down takes with its
defaults is told apart.

The first row pairs runs without a backend with one another, and so tells what of a ratio is
chance. What all other threads together work is there in percent of the pipeline's time: by
so much at most they can hold it up, and other programs on the machine hardly change it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from otel_kernel_trace import KernelTracer, LinkedSpanExporter, configure

OP = "exp_add_op"
WORK_SECONDS = 0.02
LINE = "Write the kernel so that every block of 128 elements stays in fast memory.\n"


@dataclass(frozen=True)
class SetUp:
    title: str
    backend: str = ""
    """``closed`` is a port where nobody listens, ``silent`` one where nobody answers."""
    linked: bool = False


ALONE = SetUp("`configure()` alone")
SET_UPS = {
    "alone": ALONE,
    "closed": SetUp("and OTLP over HTTP, nobody listens", "closed"),
    "closed-linked": SetUp("and `LinkedSpanExporter`, nobody listens", "closed", linked=True),
    "silent": SetUp("and OTLP over HTTP, nobody answers", "silent"),
    "silent-linked": SetUp("and `LinkedSpanExporter`, nobody answers", "silent", linked=True),
}


class Times(NamedTuple):
    """Of one pipeline, in seconds."""

    pipeline: float
    others: float
    """Processor time of other threads meanwhile."""


@dataclass
class Measured:
    """Of one set-up."""

    pairs: list[tuple[Times, Times]] = field(default_factory=list)
    """With the backend, and without."""
    shutdown: float = 0.0
    """Seconds."""


def compute(amount: int) -> int:
    """Work that holds the interpreter, as an agent's own does."""
    state = 1
    for number in range(amount):
        state = (state * 6364136223846793005 + number) % 18446744073709551616
    return state


def amount_of_work() -> int:
    """How much of it takes WORK_SECONDS here; the same in every process."""
    amount = 100_000
    seconds = []
    for _ in range(9):
        begin = time.perf_counter()
        compute(amount)
        seconds.append(time.perf_counter() - begin)
    return int(amount * WORK_SECONDS / statistics.median(seconds))


def run(set_up: SetUp, endpoint: str, hurries: bool, actions: int, amount: int, folder: Path) -> None:
    """In a process of its own: the pipeline, and its end; prints the times of the one, then of the other."""
    provider = TracerProvider()
    trace.set_tracer_provider(provider)
    if set_up.backend:
        exporter = exporter_to(endpoint, 1 if hurries else None)
        provider.add_span_processor(
            BatchSpanProcessor(
                LinkedSpanExporter(exporter) if set_up.linked else exporter,
                schedule_delay_millis=200 if hurries else None,
            )
        )
    configure(folder)
    begin, of_others = time.perf_counter(), others_time()
    with KernelTracer(OP, "1") as tracer:
        for number in range(actions):
            with tracer.coder(prompt=text(number, 20_000)) as action:
                answer = compute(amount)
                action.record(result=text(answer, 8_000), reasoning=text(number, 4_000))
    times = Times(time.perf_counter() - begin, others_time() - of_others)
    print(json.dumps(times), flush=True)
    begin = time.perf_counter()
    provider.shutdown()
    print(json.dumps(time.perf_counter() - begin), flush=True)


def exporter_to(endpoint: str, timeout: float | None) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter: SpanExporter = OTLPSpanExporter(endpoint=endpoint, timeout=timeout)
    return exporter


def others_time() -> float:
    return time.process_time() - time.thread_time()


def text(number: int, chars: int) -> str:
    return (f"{number}\n" + LINE * (chars // len(LINE) + 1))[:chars]


@contextmanager
def backends() -> Iterator[dict[str, str]]:
    """Endpoints by what becomes of a request there."""
    with ExitStack() as stack:
        closed, silent = (stack.enter_context(socket.socket()) for _ in range(2))
        for each in (closed, silent):
            each.bind(("127.0.0.1", 0))  # and kept, so that nobody else can listen there
        silent.listen(128)  # the kernel accepts, nobody reads
        yield {
            name: f"http://127.0.0.1:{each.getsockname()[1]}/v1/traces"
            for name, each in (("closed", closed), ("silent", silent))
        }


class Runs:
    """Runs pipelines, each in a process of its own."""

    def __init__(self, endpoints: dict[str, str], actions: int, root: Path) -> None:
        self._endpoints = endpoints
        self._actions = actions
        self._amount = amount_of_work()
        self._folder = root / "logs"

    def times(self, name: str) -> Times:
        """Of a run whose exporter is in a hurry."""
        return self._run(name, hurries=True)[0]

    def shutdown(self, name: str) -> float:
        """What shutting down takes, in seconds."""
        return self._run(name, hurries=False)[1]

    def pair(self, name: str, *, comes_first: bool) -> tuple[Times, Times]:
        """A run of a set-up, and beside it one without a backend."""
        if comes_first:
            mine = self.times(name)
            return mine, self.times("alone")
        alone = self.times("alone")
        return self.times(name), alone

    def _run(self, name: str, hurries: bool) -> tuple[Times, float]:
        """The times of a run, and of its shutdown, which is not waited for where the exporter hurries.

        Raises:
            RuntimeError: an action's files are not there.
        """
        endpoint = self._endpoints.get(SET_UPS[name].backend, "")
        arguments = [name, endpoint, str(int(hurries)), str(self._actions), str(self._amount)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
        environment["NO_PROXY"] = environment["no_proxy"] = "127.0.0.1"
        with subprocess.Popen(
            [sys.executable, __file__, "run", *arguments, str(self._folder)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            times = process.stdout.readline()
            written = len(list((self._folder / OP).glob("*_result.txt")))
            shutdown = 0.0 if hurries else float(process.stdout.readline())
            process.kill()
        if written != self._actions:
            raise RuntimeError(f"{SET_UPS[name].title}: {self._actions} actions, {written} on disk")
        shutil.rmtree(self._folder)
        return Times(*json.loads(times)), shutdown


def print_table(measured: dict[str, Measured], actions: int) -> None:
    print(f"| pipeline of {actions} actions | s | ratio | middle half | other threads | shutdown, s |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, of in measured.items():
        ratios = sorted(mine.pipeline / alone.pipeline for mine, alone in of.pairs)
        quarter = len(ratios) // 4
        seconds = statistics.median(mine.pipeline for mine, _ in of.pairs)
        others = statistics.median(100 * mine.others / mine.pipeline for mine, _ in of.pairs)
        print(
            f"| {SET_UPS[name].title} | {seconds:.2f} | {statistics.median(ratios):.3f} "
            f"| {ratios[quarter]:.3f} … {ratios[-1 - quarter]:.3f} | {others:.2f} % | {of.shutdown:.1f} |"
        )
    print(f"\nMedians of {len(measured['alone'].pairs)} pairs each; ratios are of the pairs.")


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        name, endpoint, hurries, actions, amount, folder = sys.argv[2:]
        run(SET_UPS[name], endpoint, hurries == "1", int(actions), int(amount), Path(folder))
        return
    memory = Path("/dev/shm")
    parser = argparse.ArgumentParser(description="A pipeline's own time where its backend does not answer.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--actions", type=int, default=200, help="actions of a pipeline")
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=memory if memory.is_dir() else Path(tempfile.gettempdir()),
        help="where to write, by default to memory where there is such a disk",
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    measured = {name: Measured() for name in SET_UPS}
    with tempfile.TemporaryDirectory(prefix="unreachable-", dir=arguments.folder) as root:
        with backends() as endpoints:
            runs = Runs(endpoints, arguments.actions, Path(root))
            for name, of in measured.items():
                of.shutdown = runs.shutdown(name)
            for number in range(arguments.rounds):
                for name, of in measured.items():
                    of.pairs.append(runs.pair(name, comes_first=number % 2 == 1))
    print_table(measured, arguments.actions)


if __name__ == "__main__":
    main()
