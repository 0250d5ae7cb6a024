"""What the page is told of compiling: diagnostics, kernels, stages. Pure functions.

Times are in milliseconds, sizes in bytes. What is not known is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypedDict

from otel_kernel_trace.diagnostics import Diagnostic, by_weight
from otel_kernel_trace.measurements import Measurement
from otel_kernel_trace.reader.model import Task
from otel_kernel_trace.reader.stages import PlacedStage, placed_stages
from otel_kernel_trace.resources import KernelResources
from otel_kernel_trace.suspicion import Suspicion

MAX_CHARS: Final = 2_000
"""Of a longer text that is no part the page has the beginning."""
_MAX_SHOWN = 200


class DiagnosticShown(TypedDict, total=False):
    """One thing that a log says is wrong."""

    tool: str
    severity: str
    category: str
    text: str
    """Where and what, in a line."""
    logLine: int
    """Line of the error log where it begins, from 1."""
    notes: list[str]
    figures: list[list[str | float]]


class SuspicionShown(TypedDict, total=False):
    """What hints at a measurement or a kernel that is not what it seems."""

    kind: str
    reason: str
    evidence: str
    line: int
    """Of the kernel's source, from 1."""


class MeasuredShown(TypedDict, total=False):
    """How fast a kernel was, and by what method."""

    base: float
    kernel: float
    how: str


class KernelShown(TypedDict, total=False):
    """What an entry function needs; bytes, and milliseconds."""

    entry: str
    arch: str
    registers: int
    spillStores: int
    spillLoads: int
    stack: int
    shared: int
    constant: int
    barriers: int
    compile: float


class StageShown(TypedDict, total=False):
    """A stage of compiling, running or measuring, or a command. Milliseconds and bytes."""

    name: str
    action: int
    """Index of the action that it is in; not there where it is in none."""
    depth: int
    """How many stages are around it."""
    share: float
    """Of the time of what is right around it, from 0."""
    start: float
    end: float
    error: str
    cpu: float
    childrenCpu: float
    memory: int
    input: int
    output: int
    command: list[str]
    exit: int
    signal: str
    macros: list[str]
    diagnostics: list[DiagnosticShown]
    kernels: list[KernelShown]
    builder: list[list[str | float]]


def diagnostics_of(diagnostics: Sequence[Diagnostic]) -> list[DiagnosticShown]:
    """What a log says is wrong, the first error first."""
    return [_diagnostic_of(one) for one in by_weight(diagnostics)[:_MAX_SHOWN]]


def _diagnostic_of(one: Diagnostic) -> DiagnosticShown:
    shown = DiagnosticShown(
        tool=one.tool, severity=one.severity, category=one.category, text=one.headline[:MAX_CHARS]
    )
    if one.log_line:
        shown["logLine"] = one.log_line
    if one.notes:
        shown["notes"] = [note[:MAX_CHARS] for note in one.notes]
    if one.figures:
        shown["figures"] = [[name, value] for name, value in one.figures.items() if math.isfinite(value)]
    return shown


def suspicions_of(suspicions: Sequence[Suspicion]) -> list[SuspicionShown]:
    """What hints at a measurement or a kernel that is not what it seems."""
    shown = []
    for one in suspicions[:_MAX_SHOWN]:
        told = SuspicionShown(kind=one.kind, reason=one.reason[:MAX_CHARS], evidence=one.evidence[:MAX_CHARS])
        if one.line is not None:
            told["line"] = one.line
        shown.append(told)
    return shown


def measured_of(one: Measurement) -> MeasuredShown:
    """How fast a kernel was, and by what method."""
    shown = MeasuredShown(how=one.how[:MAX_CHARS])
    if one.base_time is not None and math.isfinite(one.base_time):
        shown["base"] = one.base_time * 1000
    if one.generated_time is not None and math.isfinite(one.generated_time):
        shown["kernel"] = one.generated_time * 1000
    return shown


def kernels_of(resources: Sequence[KernelResources]) -> list[KernelShown]:
    """What the entry functions need that were assembled."""
    return [_kernel_of(kernel) for kernel in resources[:_MAX_SHOWN]]


def _kernel_of(kernel: KernelResources) -> KernelShown:
    shown = KernelShown(entry=kernel.entry)
    if kernel.arch:
        shown["arch"] = kernel.arch
    if kernel.registers is not None:
        shown["registers"] = kernel.registers
    if kernel.spill_stores is not None:
        shown["spillStores"] = kernel.spill_stores
    if kernel.spill_loads is not None:
        shown["spillLoads"] = kernel.spill_loads
    if kernel.stack_frame is not None:
        shown["stack"] = kernel.stack_frame
    if kernel.shared_memory is not None:
        shown["shared"] = kernel.shared_memory
    if kernel.constant_memory is not None:
        shown["constant"] = kernel.constant_memory
    if kernel.barriers is not None:
        shown["barriers"] = kernel.barriers
    if kernel.compile_time is not None and math.isfinite(kernel.compile_time):
        shown["compile"] = kernel.compile_time * 1000
    return shown


def stages_of(task: Task) -> list[StageShown]:
    """Stages by start, each followed by those inside it, with the action that they are in."""
    actions = {id(action): number for number, action in enumerate(task.actions)}
    return [_stage_of(placed, actions.get(id(placed.action))) for placed in placed_stages(task)]


def _stage_of(placed: PlacedStage, action: int | None) -> StageShown:
    stage = placed.stage
    shown = StageShown(name=stage.name, depth=placed.depth)
    if placed.share is not None:
        shown["share"] = placed.share
    if action is not None:
        shown["action"] = action
    if stage.start is not None:
        shown["start"] = ms(stage.start)
    if stage.end is not None:
        shown["end"] = ms(stage.end)
    if stage.error:
        shown["error"] = stage.error[:MAX_CHARS]
    if stage.cpu_time is not None:
        shown["cpu"] = stage.cpu_time * 1000
    if stage.children_cpu_time is not None:
        shown["childrenCpu"] = stage.children_cpu_time * 1000
    if stage.peak_memory is not None:
        shown["memory"] = stage.peak_memory
    if stage.input_size is not None:
        shown["input"] = stage.input_size
    if stage.output_size is not None:
        shown["output"] = stage.output_size
    if stage.command:
        shown["command"] = [word[:MAX_CHARS] for word in stage.command[:_MAX_SHOWN]]
    if stage.exit_code is not None:
        shown["exit"] = stage.exit_code
    if stage.signal:
        shown["signal"] = stage.signal
    if stage.macros:
        shown["macros"] = list(stage.macros[:_MAX_SHOWN])
    if stage.diagnostics:
        shown["diagnostics"] = diagnostics_of(stage.diagnostics)
    if stage.resources:
        shown["kernels"] = kernels_of(stage.resources)
    if stage.builder:
        shown["builder"] = [
            [name, value if isinstance(value, (int, float)) else value[:MAX_CHARS]]
            for name, value in stage.builder.items()
        ]
    return shown


def ms(nanoseconds: int) -> float:
    """Nanoseconds in milliseconds."""
    return round(nanoseconds / 1e6, 3)
