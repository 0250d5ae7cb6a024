"""How long the commands that read take on a large tree, and how that grows with it.

    pip install '.[cli]'
    python benchmarks/reading.py [--tasks 2000] [--runs 5] [FOLDER]

Makes a tree of half the tasks, then adds the other half: 50 actions a task, a Coder's and a
Verifier's in turn, over 20 operators; every task passes in the end. Each command runs as a
user runs it, a process of its own with its output thrown away. The table has medians of wall
time, the most memory that was resident, and the ratio to the tree of half the size.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from recording import PROMPT, REASONING, REPLY

from otel_kernel_trace import KernelTracer, configure

ACTIONS, OPS = 50, 20
LOG = 'error: identifier "entry" is undefined\n' * 20


def write(log_dir: Path, tasks: range) -> None:
    """Add tasks to a tree."""
    provider = configure(log_dir, tracer_provider=TracerProvider(shutdown_on_exit=False))
    for number in tasks:
        with KernelTracer(f"op_{number % OPS:02d}", str(number), provider) as tracer:
            for step in range(0, ACTIONS, 2):
                with tracer.coder(prompt=PROMPT[:2000]) as action:
                    action.record(REPLY[:1500], REASONING[:1000])
                with tracer.verifier(framework="torch", impl_type="triton") as check:
                    is_last = step + 2 >= ACTIONS
                    check.record(is_last, "" if is_last else LOG, {"speedup": 1 + number / 1000})
    provider.shutdown()


def measured(arguments: list[str], runs: int) -> tuple[float, float]:
    """Median seconds, and the most megabytes of memory."""
    seconds, most = [], 0.0
    command = [sys.executable, "-c", "from otel_kernel_trace.cli import main; main()", *arguments]
    for _ in range(runs):
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds.append(time.perf_counter() - begin)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{arguments} ended with {process.returncode}")
        most = max(most, usage.ru_maxrss / 1024)
    return statistics.median(seconds), most


def main() -> None:
    parser = argparse.ArgumentParser(description="What reading a large tree costs.")
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    log_dir = arguments.folder / "reading"
    shutil.rmtree(log_dir, ignore_errors=True)
    commands = {
        "ls": ["ls", str(log_dir)],
        "show a step": ["show", str(log_dir), "op_01", "1", "20"],
        "show a task": ["show", str(log_dir), "op_01", "1"],
        "diff": ["diff", str(log_dir), "op_01", "1"],
        "recover": ["recover", str(log_dir)],
    }
    try:
        half = arguments.tasks // 2
        write(log_dir, range(half))
        before = {name: measured(command, arguments.runs)[0] for name, command in commands.items()}
        write(log_dir, range(half, arguments.tasks))
        print(
            f"| {ACTIONS * arguments.tasks} records in {arguments.tasks} tasks | s | MB | to half of them |"
        )
        print("|---|---:|---:|---:|")
        for name, command in commands.items():
            seconds, memory = measured(command, arguments.runs)
            print(f"| `{name}` | {seconds:.2f} | {memory:.0f} | {seconds / before[name]:.2f} |")
    finally:
        shutil.rmtree(log_dir, ignore_errors=True)


if __name__ == "__main__":
    main()
