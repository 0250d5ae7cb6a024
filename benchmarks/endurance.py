"""What a long run costs: memory, the last records against the first, opening a large tree, importing.

python benchmarks/endurance.py [--records 100000] [FOLDER]
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan

from otel_kernel_trace import ActionType, KernelTraceSpanExporter, Trace, attributes

TEXT = "x = tl.load(pointer + offsets, mask=offsets < n)\n" * 10


def resident() -> int:
    """Resident memory in bytes."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(records: int, record: Callable[[int], None]) -> str:
    for number in range(1, 1001):  # buffers and caches have their size after these
        record(number)
    before = resident()
    times = []
    for number in range(1001, records + 1):
        begin = time.perf_counter_ns()
        record(number)
        times.append(time.perf_counter_ns() - begin)
    grown = (resident() - before - times.__sizeof__() - 32 * len(times)) / 1e6
    first, last = statistics.median(times[:1000]), statistics.median(times[-1000:])
    return f"{grown:.1f} MB grown, last 1000 / first 1000: {last / first:.2f}"


def through_export(folder: Path) -> Callable[[int], None]:
    exporter = KernelTraceSpanExporter(folder)

    def record(number: int) -> None:
        given = {
            **attributes.of_action("op", "1", number, "DO_CODER"),
            **attributes.of_parts({"prompt": TEXT, "reasoning": "", "result": TEXT}),
        }
        exporter.export((ReadableSpan("x", attributes=given, resource=_resource),))

    return record


def through_trace(folder: Path) -> Callable[[int], None]:
    trace = Trace("op", "1", folder)
    return lambda _: trace.insert_designer_or_coder_record(TEXT, TEXT, "", ActionType.DO_CODER)


_resource = ReadableSpan("x").resource


def opening(folder: Path) -> str:
    """A first record in a new process, with the counters there and without."""
    script = (
        "import sys, time; from otel_kernel_trace import Trace, ActionType; begin = time.perf_counter(); "
        "trace = Trace('op', '1', sys.argv[1]); "
        "trace.insert_designer_or_coder_record('r', 'p', '', ActionType.DO_CODER); "
        "print(f'{time.perf_counter() - begin:.3f} s')"
    )
    command = [sys.executable, "-c", script, str(folder)]
    counted = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    shutil.rmtree(folder / ".kernel_trace")
    uncounted = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return f"{counted} with its counters, {uncounted} without"


def importing() -> str:
    def seconds(statement: str) -> float:
        script = f"from time import perf_counter as now; begin = now(); {statement}; print(now() - begin)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        return float(done.stdout)

    sdk = [seconds("import opentelemetry.sdk.trace.export") for _ in range(15)]
    lines = [f"import opentelemetry.sdk.trace.export: {statistics.median(sdk) * 1e3:.0f} ms"]
    for ours in (
        "import otel_kernel_trace",
        "from otel_kernel_trace import KernelTracer",
        "from otel_kernel_trace import KernelTraceSpanExporter",
        "from otel_kernel_trace import *",
    ):
        ratio = statistics.median(seconds(ours) / base for base in sdk)
        lines.append(f"{ours}: {ratio:.2f} times that")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a long run costs.")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    print(importing())
    for name, way in (("export", through_export), ("Trace", through_trace)):
        folder = arguments.folder / "benchmark"
        shutil.rmtree(folder, ignore_errors=True)
        print(f"{arguments.records} records through {name}: {run(arguments.records, way(folder))}")
    print(f"opening that tree and recording once: {opening(folder)}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
