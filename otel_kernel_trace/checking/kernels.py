"""Rules about what kernels and stages take: registers, spills, shared memory, time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from otel_kernel_trace.checking.context import Context, Judge, finding, limited, pairs, unmeasured
from otel_kernel_trace.checking.health import Finding
from otel_kernel_trace.checking.rules import Rule, is_named
from otel_kernel_trace.fingerprint.document import spill_bytes
from otel_kernel_trace.fingerprint.fingerprint import Fingerprint, StageCost
from otel_kernel_trace.resources import KernelResources

_Need = Callable[[KernelResources], int | None]


def _budget(need: _Need, unit: str) -> Judge:
    def judge(rule: Rule, context: Context) -> Iterator[Finding]:
        for task in context.tasks:
            kernels = [kernel for kernel in task.kernels if is_named(kernel.entry, rule.names)]
            if not kernels:
                why = "no assembler's log tells of a kernel" + _of_names(rule, len(task.kernels))
                yield unmeasured(rule, why, task)
            for kernel in kernels:
                value = need(kernel)
                if value is None:
                    yield unmeasured(rule, "the assembler does not say", task, subject=_name(kernel))
                else:
                    yield limited(
                        rule, value, rule.limit, task, at_least=False, unit=unit, subject=_name(kernel)
                    )

    return judge


def _of_names(rule: Rule, others: int) -> str:
    if rule.names == ("*",):
        return ""
    return f" named {', '.join(rule.names)}" + (f"; of {others} others it does" if others else "")


def _may_grow(need: _Need, unit: str) -> Judge:
    """That kernels of the same name do not need more than in the baseline by more than a share."""

    def judge(rule: Rule, context: Context) -> Iterator[Finding]:
        for pair in pairs(rule, context):
            if isinstance(pair, Finding):
                yield pair
                continue
            op_name, tasks, earlier = pair
            now, before = _most(need, rule, tasks), _most(need, rule, earlier)
            if not before:
                why = "nothing to compare with: in the baseline no assembler's log tells of a kernel"
                yield finding(rule, "skipped", why + _of_names(rule, 0), op_name=op_name)
            for name, limit in before.items():
                if name not in now:
                    why = "the baseline has this kernel, and here no assembler's log tells of it"
                    yield unmeasured(rule, why, op_name=op_name, subject=name)
                    continue
                yield limited(
                    rule,
                    now[name],
                    limit * (1 + rule.limit),
                    at_least=False,
                    unit=unit,
                    op_name=op_name,
                    subject=name,
                    note=f"; the baseline has {limit}",
                )

    return judge


def _most(need: _Need, rule: Rule, tasks: Sequence[Fingerprint]) -> dict[str, int]:
    """The most that any task's kernel needs, by the kernel's name."""
    found: dict[str, int] = {}
    for task in tasks:
        for kernel in task.kernels:
            value = need(kernel)
            if value is not None and is_named(kernel.entry, rule.names):
                found[_name(kernel)] = max(found.get(_name(kernel), value), value)
    return found


def _name(kernel: KernelResources) -> str:
    return f"{kernel.entry} ({kernel.arch})" if kernel.arch else kernel.entry


def _stages(need: Callable[[StageCost], float | None], unit: str) -> Judge:
    def judge(rule: Rule, context: Context) -> Iterator[Finding]:
        for task in context.tasks:
            stages = {name: cost for name, cost in task.stages.items() if is_named(name, rule.names)}
            if not stages:
                yield unmeasured(rule, f"there is no stage named {', '.join(rule.names)}", task)
            for name, cost in stages.items():
                value = need(cost)
                if value is None:
                    yield unmeasured(rule, "it did not end, or does not tell", task, subject=name)
                else:
                    yield limited(rule, value, rule.limit, task, at_least=False, unit=unit, subject=name)

    return judge


JUDGES: Final[Mapping[str, Judge]] = {
    "kernels.registers": _budget(lambda kernel: kernel.registers, ""),
    "kernels.spill_bytes": _budget(spill_bytes, "B"),
    "kernels.shared_memory": _budget(lambda kernel: kernel.shared_memory, "B"),
    "kernels.stack_frame": _budget(lambda kernel: kernel.stack_frame, "B"),
    "kernels.registers_may_grow": _may_grow(lambda kernel: kernel.registers, ""),
    "kernels.spill_bytes_may_grow": _may_grow(spill_bytes, "B"),
    "stages.maximum_seconds": _stages(lambda cost: cost.seconds, "s"),
    "stages.maximum_mb": _stages(lambda cost: cost.peak_memory_mb, "MiB"),
}
