"""The Verifier: compiles, runs, compares and times a kernel in a process of its own.

A kernel may crash the process or never return, so nothing of it runs in ours.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernel_generation.operators import FRAMEWORK, IMPL_TYPE, Operator
from otel_kernel_trace import KernelTracer, Run
from otel_kernel_trace.diagnostics import first_error

_SCRIPT = '''"""Compares the kernel for {name} with the reference, and times both."""

import faulthandler
import json
import statistics
import sys
import time

import numpy as np

from {name}_{framework} import reference
from {name}_{impl_type} import kernel

SHAPES = {shapes!r}
TOLERANCE = {tolerance!r}
WARM_UP, RUNS = 2, 9


def inputs_of(shapes, dtype):
    random = np.random.default_rng(20250701)
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]


def seconds(function, inputs):
    for _ in range(WARM_UP):
        function(*inputs)
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        function(*inputs)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


faulthandler.dump_traceback_later({time_limit} * 0.9)  # where it hangs, if it does
for dtype, tolerance in TOLERANCE:
    for shapes in SHAPES:
        inputs = inputs_of(shapes, dtype)
        expected = reference(*(array.copy() for array in inputs))
        print(f"case {{shapes}} {{dtype}}", file=sys.stderr, flush=True)
        np.testing.assert_allclose(
            kernel(*(array.copy() for array in inputs)), expected, rtol=tolerance, atol=tolerance
        )

largest = inputs_of(SHAPES[-1], "float32")
base, generated = seconds(reference, largest), seconds(kernel, largest)
print(
    json.dumps(
        {{
            "base_time_us": round(base * 1e6, 3),
            "gen_time_us": round(generated * 1e6, 3),
            "speedup": round(base / generated, 3),
            "method": f"median of {{RUNS}} runs after {{WARM_UP}} to warm up, time.perf_counter, "
            f"float32 {{SHAPES[-1]}}, NumPy {{np.__version__}}",
        }}
    )
)
'''


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a kernel."""

    passed: bool
    log: str
    """What the process wrote to stderr, and how it ended; empty for a kernel that passed."""
    profile: str
    """Measurements (JSON), empty for a kernel that failed."""
    script: str
    """Source of the comparison."""
    error: str
    """The error to look at first, in a line; empty for a kernel that passed."""


def verify(operator: Operator, implementation: str, tracer: KernelTracer, time_limit: float) -> Verdict:
    """Try a kernel on all cases of its operator.

    Args:
        operator: what it should compute.
        implementation: source of a module with ``kernel(*inputs)``.
        tracer: runs the comparison as a stage of the action at work.
        time_limit: seconds until the process is killed.
    """
    script = _SCRIPT.format(
        name=operator.name,
        framework=FRAMEWORK,
        impl_type=IMPL_TYPE,
        shapes=operator.shapes,
        tolerance=operator.tolerance,
        time_limit=time_limit,
    )
    with tempfile.TemporaryDirectory(prefix="verify_") as folder:
        with tracer.stage("prepare", input=implementation):
            Path(folder, f"{operator.name}_{FRAMEWORK}.py").write_text(operator.reference, encoding="utf-8")
            Path(folder, f"{operator.name}_{IMPL_TYPE}.py").write_text(implementation, encoding="utf-8")
            Path(folder, f"verify_{operator.name}.py").write_text(script, encoding="utf-8")
        run = tracer.run(
            [sys.executable, "-X", "faulthandler", f"verify_{operator.name}.py"],
            name="compare",
            cwd=folder,
            timeout=time_limit,
        )
        log = run.stderr.replace(f"{folder}{os.sep}", "")  # the folder is gone when the log is read
    if run.returncode == 0:
        return Verdict(passed=True, log="", profile=run.stdout.strip(), script=script, error="")
    ending = _ending(run, time_limit)
    error = first_error(run.diagnostics)
    told = error.headline.replace(f"{folder}{os.sep}", "") if error else ending
    return Verdict(passed=False, log=f"{log.rstrip()}\n\n{ending}\n", profile="", script=script, error=told)


def _ending(run: Run, time_limit: float) -> str:
    if run.is_timed_out:
        return f"verify: killed after the time limit of {time_limit:g} s"
    if run.signal:
        return f"verify: the process died of {run.signal}"
    return f"verify: exit status {run.returncode}"
