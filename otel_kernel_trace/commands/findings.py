"""What logs tell, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from otel_kernel_trace.commands import terminal
from otel_kernel_trace.commands.terminal import duration, safe_line, speedup
from otel_kernel_trace.diagnostics import first_error
from otel_kernel_trace.measurements import Measurement
from otel_kernel_trace.reader import Action, Comparison, Recurrence
from otel_kernel_trace.resources import KernelResources

_MAX_OTHERS = 8
_MAX_ERRORS = 3


def found(action: Action, recurrence: Recurrence | None) -> Iterator[str]:
    """What the logs of an action tell: what is wrong, what its kernels need, what to distrust."""
    error = first_error(action.diagnostics)
    if error is not None:
        yield f"  {click.style(f'{error.tool} {error.category}', fg='red')} {safe_line(error.headline)}"
    if recurrence is not None:
        steps = ", ".join(str(step) for step in recurrence.steps)
        more = (
            ""
            if len(recurrence.steps) == recurrence.times
            else f" and {recurrence.times - len(recurrence.steps)} before"
        )
        where = "step" if recurrence.times == 1 else "steps"
        yield click.style(f"  the same error as in {where} {steps}{more}", fg="yellow")
    others = [one for one in action.diagnostics if one is not error]
    for one in others[:_MAX_OTHERS]:
        yield click.style(f"    {one.severity} {one.tool} {safe_line(one.headline)}", dim=True)
    if len(others) > _MAX_OTHERS:
        yield click.style(f"    and {len(others) - _MAX_OTHERS} more", dim=True)
    if action.assessment is not None and action.assessment.measurement:
        yield f"  {click.style('measured', fg='cyan')} {safe_line(measured(action.assessment.measurement))}"
    for suspicion in action.suspicions:
        line = f" (line {suspicion.line}: {suspicion.evidence})" if suspicion.line else ""
        what = click.style(f"look at this: {suspicion.kind.replace('_', ' ')}", fg="yellow")
        yield f"  {what} {safe_line(suspicion.reason + line)}"
    for kernel in action.resources:
        yield f"  {click.style('resources', fg='cyan')} {safe_line(needs(kernel))}"


def measured(one: Measurement) -> str:
    """Times and speedup, and by what method."""
    times = [("reference", one.base_time), ("kernel", one.generated_time)]
    facts = [f"{name} {duration(round(seconds * 1e9))}" for name, seconds in times if seconds is not None]
    if one.speedup is not None:
        facts.append(speedup(one.speedup))
    return "; ".join(filter(None, [", ".join(facts), one.how]))


def needs(kernel: KernelResources) -> str:
    """What a kernel needs, in a line."""
    told = [
        ("registers", kernel.registers, ""),
        ("shared memory", kernel.shared_memory, " bytes"),
        ("stack", kernel.stack_frame, " bytes"),
        ("spill stores", kernel.spill_stores, " bytes"),
        ("spill loads", kernel.spill_loads, " bytes"),
        ("barriers", kernel.barriers, ""),
    ]
    facts = [f"{name} {value}{unit}" for name, value, unit in told if value is not None]
    if kernel.compile_time is not None:
        facts.append(f"compiled in {duration(round(kernel.compile_time * 1e9))}")
    return f"{kernel.entry} {kernel.arch}: {', '.join(facts)}"


def errors_compared(found: Sequence[Comparison]) -> Iterator[str]:
    """What attempts failed with most, before and after."""
    rows = [
        [op.op_name, f"{before} -> {after}", signature]
        for op in found
        for signature, before, after in op.errors[:_MAX_ERRORS]
    ]
    if rows:
        yield ""
        yield from terminal.table(["OP", "TIMES", "FAILED WITH"], rows, width=terminal.width())
