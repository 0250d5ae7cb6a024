"""What a task came to and what it was made with, in one small value that can be kept and compared.

A fingerprint has short texts alone and none of a prompt or a reply, so that it may be kept
beside the code. :mod:`otel_kernel_trace.fingerprint.document` writes and reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from otel_kernel_trace import attributes
from otel_kernel_trace.reader.model import Action, Outcome, Stage, Task, Tokens
from otel_kernel_trace.reader.outcome import summary_of
from otel_kernel_trace.reader.stages import told_by_actions
from otel_kernel_trace.reader.timeline import tokens_by_model
from otel_kernel_trace.resources import KernelResources

MIB: Final = 1024 * 1024
_MAX_TEXT = 500
"""Characters of a warning that are kept: there may be a whole graph in it."""

Line = Mapping[str, str | int | float | bool]
"""Of a builder's log, as :attr:`Stage.builder_lines` has it."""


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a stage took, at most, over all times that it ran."""

    seconds: float | None = None
    """Wall time; None where it did not end."""
    peak_memory_mb: float | None = None
    """MiB of the host's memory."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A fusion that a builder did not make."""

    layers: str
    """What was to become one, as the builder says."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Of one task. What nothing tells is None, or empty."""

    op_name: str
    task_id: str
    outcome: Outcome = Outcome.UNKNOWN
    engine_version: str | None = None
    precision: str | None = None
    peak_memory_mb: float | None = None
    """MiB of the device's memory, the most that a builder tells."""
    fusion_rate: float | None = None
    """From 0 to 1, of the last build, as is what follows of fusions."""
    warnings: tuple[str, ...] = ()
    """Each once, in the order in which they came."""
    fusions_made: int | None = None
    fusions_refused: int | None = None
    fused: tuple[str, ...] = ()
    """What was made one, as far as the builder's lines are there."""
    refused: tuple[Refusal, ...] = ()
    """What was not, likewise."""
    compile_time: float | None = None
    """Seconds, of :attr:`kernels` and of the last engine."""
    kernels: tuple[KernelResources, ...] = ()
    """Of the last attempt of which an assembler tells, by entry function."""
    stages: Mapping[str, StageCost] = field(default_factory=lambda: MappingProxyType({}))
    git_commit: str | None = None
    seeds: Mapping[str, int | str] = field(default_factory=lambda: MappingProxyType({}))
    toolchain: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Versions of compilers and libraries, and of Python."""
    device: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """``model`` and ``driver_version``, and the host's ``arch`` and ``os``."""
    steps: int = 0
    verified: int = 0
    """Verifications that have a verdict."""
    passed: int = 0
    """Of these, how many passed."""
    first_pass: int | None = None
    best_speedup: float | None = None
    tokens: Tokens = field(default_factory=Tokens)
    tokens_by_model: Mapping[str, Tokens] = field(default_factory=lambda: MappingProxyType({}))
    error_categories: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many errors of each category the logs tell."""
    error_signatures: tuple[str, ...] = ()
    """Each once, in the order in which they came."""
    undiagnosed: int = 0
    """Verifications that failed, and no diagnostic says why."""
    suspicions: tuple[str, ...] = ()
    """Of verifications that passed."""

    @property
    def has_run(self) -> bool:
        """Whether anything was verified, compiled or built, so that there were logs to look at."""
        return bool(self.verified or self.stages or self.warnings or self.fusions_made is not None)


def fingerprint_of(task: Task) -> Fingerprint:
    """The fingerprint of a task. A pure function."""
    summary, told = task.summary, task.description
    builders = [one.builder for one in _by_time(task) if one.builder]
    lines = _last_build(task)
    kernels = _kernels_of(task)
    repeated = told_by_actions(task)
    diagnostics = [
        one
        for each in _by_time(task)
        for one in each.diagnostics
        if isinstance(each, Action) or one.signature not in repeated.get((each.trace_id, each.span_id), ())
    ]
    errors = [one for one in diagnostics if one.severity == "error"]
    times = [kernel.compile_time for kernel in kernels] + [_number(_last(builders, "engine_time"))]
    known_times = [seconds for seconds in times if seconds is not None]
    memory = [bytes_ for each in builders if (bytes_ := _number(each.get("peak_memory"))) is not None]
    return Fingerprint(
        op_name=summary.op_name,
        task_id=summary.task_id,
        outcome=summary.outcome,
        engine_version=_text(_last(builders, "engine_version") or told.get(attributes.ENGINE_VERSION)),
        precision=_text(_last(builders, "precision") or told.get(attributes.ENGINE_PRECISION)),
        peak_memory_mb=max(memory) / MIB if memory else None,
        fusion_rate=_number(_last(builders, "fusion_rate")),
        warnings=_warnings_of(task),
        fusions_made=_whole(_last(builders, "fusions_made")),
        fusions_refused=_whole(_last(builders, "fusions_refused")),
        fused=tuple(_layers(line) for line in lines if line.get("kind") == "fusion_made"),
        refused=tuple(
            Refusal(_layers(line), _short(line.get("reason", "")))
            for line in lines
            if line.get("kind") == "fusion_refused"
        ),
        compile_time=sum(known_times) if known_times else None,
        kernels=kernels,
        stages=MappingProxyType(_stages_of(task.stages)),
        git_commit=_text(told.get(attributes.VCS_REVISION)),
        seeds=MappingProxyType(
            {
                name.removeprefix(attributes.SEED_PREFIX): value
                for name, value in told.items()
                if name.startswith(attributes.SEED_PREFIX)
            }
        ),
        toolchain=MappingProxyType(_toolchain_in(told)),
        device=MappingProxyType(_device_in(told)),
        steps=summary.steps,
        verified=summary.verified,
        passed=summary.passed,
        first_pass=summary.first_pass,
        best_speedup=_number(summary.best_speedup),
        tokens=summary.tokens,
        tokens_by_model=MappingProxyType(dict(tokens_by_model(task.actions))),
        error_categories=MappingProxyType(dict(Counter(one.category for one in errors))),
        error_signatures=_each_once(one.signature or one.message for one in errors),
        undiagnosed=_undiagnosed(task),
        suspicions=_each_once(
            one.reason for action in task.actions if action.passed for one in action.suspicions
        ),
    )


def fingerprint_of_build(
    name: str, builder: Mapping[str, str | int | float | bool], lines: tuple[Line, ...]
) -> Fingerprint:
    """The fingerprint of a build that is in no tree, from what a :class:`Stage` would have of it."""
    stage = Stage(name, None, None, "", "", "", builder=builder, builder_lines=lines)
    return fingerprint_of(Task(summary_of(name, "", {}, {}, (), is_indexed=False), (), (), stages=(stage,)))


def _by_time(task: Task) -> list[Action | Stage]:
    """Actions and stages by start: what is told later replaces what was told before."""
    return sorted([*task.actions, *task.stages], key=lambda one: one.start or 0)


def _last(builders: Iterable[Mapping[str, str | int | float | bool]], name: str) -> object:
    found = None
    for each in builders:
        found = each.get(name, found)
    return found


def _last_build(task: Task) -> tuple[Line, ...]:
    """The lines of the last log that tells of fusions."""
    found: tuple[Line, ...] = ()
    for one in _by_time(task):
        if any(line.get("kind") in ("fusion_made", "fusion_refused") for line in one.builder_lines):
            found = one.builder_lines
    return found


def _layers(line: Line) -> str:
    return _short(line.get("fused") or line.get("node") or line.get("message", ""))


def _warnings_of(task: Task) -> tuple[str, ...]:
    found = []
    for one in _by_time(task):
        found += [_short(each.message) for each in one.diagnostics if each.severity == "warning"]
        found += [
            _short(line.get("message", ""))
            for line in one.builder_lines
            if str(line.get("severity", "")).lower() == "warning"
        ]
    return _each_once(found)


def _kernels_of(task: Task) -> tuple[KernelResources, ...]:
    """Of the last action inside which an assembler tells of kernels, and of stages outside any action.

    What an earlier attempt needed is not what the kernel needs now.
    """
    found: dict[tuple[str, str], KernelResources] = {}
    told_by: dict[str, list[KernelResources]] = {}
    inside = _actions_around(task)
    for one in _by_time(task):
        action = one.span_id if isinstance(one, Action) else inside.get(one.span_id, "")
        if not one.resources:
            continue
        if action:
            told_by.setdefault(action, []).extend(one.resources)
        else:
            found.update({(each.entry, each.arch): each for each in one.resources})
    last = max(
        (action for action in task.actions if action.span_id in told_by),
        key=lambda action: (action.start or 0, action.step),
        default=None,
    )
    if last is not None:
        found.update({(each.entry, each.arch): each for each in told_by[last.span_id]})
    return tuple(found.values())


def _actions_around(task: Task) -> dict[str, str]:
    """By a stage's span id that of the action that it is in, also through other stages."""
    actions = {action.span_id for action in task.actions if action.span_id}
    parents = {stage.span_id: stage.parent_id for stage in task.stages}
    found: dict[str, str] = {}
    for stage in task.stages:
        path: list[str] = []
        at, seen = stage.span_id, set[str]()
        while at in parents and at not in found and at not in seen:  # parents may stand in a circle
            seen.add(at)
            path.append(at)
            at = parents[at]
        action = at if at in actions else found.get(at, "")
        found.update(dict.fromkeys(path, action))
    return found


def _undiagnosed(task: Task) -> int:
    inside = _actions_around(task)
    told = {
        one.span_id if isinstance(one, Action) else inside.get(one.span_id, "")
        for one in _by_time(task)
        if any(each.severity == "error" for each in one.diagnostics)
    }
    return sum(action.passed is False and action.span_id not in told for action in task.actions)


def _stages_of(stages: Iterable[Stage]) -> dict[str, StageCost]:
    found: dict[str, StageCost] = {}
    for stage in stages:
        before = found.get(stage.name, StageCost())
        ended = stage.start is not None and stage.end is not None
        seconds = ((stage.end or 0) - (stage.start or 0)) / 1e9 if ended else None
        memory = None if stage.peak_memory is None else stage.peak_memory / MIB
        found[stage.name] = StageCost(
            _larger(before.seconds, seconds), _larger(before.peak_memory_mb, memory)
        )
    return found


def _larger(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return max(known, default=None)


def _toolchain_in(told: Mapping[str, str | int]) -> dict[str, str]:
    found = {
        name.removeprefix(attributes.TOOLCHAIN_PREFIX): str(value)
        for name, value in told.items()
        if name.startswith(attributes.TOOLCHAIN_PREFIX)
    }
    if attributes.RUNTIME_VERSION in told:
        found[str(told.get(attributes.RUNTIME_NAME, "python"))] = str(told[attributes.RUNTIME_VERSION])
    return found


def _device_in(told: Mapping[str, str | int]) -> dict[str, str]:
    names = {
        attributes.DEVICE_MODEL: "model",
        attributes.DEVICE_DRIVER: "driver_version",
        attributes.HOST_ARCH: "arch",
        attributes.OS_TYPE: "os",
    }
    return {name: str(told[attribute]) for attribute, name in names.items() if attribute in told}


def _number(value: object) -> float | None:
    """A number that can be compared; a stranger's index may hold any other."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e18 else None  # nor is NaN


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _text(value: object) -> str | None:
    return None if value is None else _short(value)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def _each_once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
