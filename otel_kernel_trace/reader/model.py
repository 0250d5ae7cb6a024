"""What a tree tells, as plain values.

Times are in nanoseconds, those of a clock since 1970. Ids are in hexadecimal, empty where
there are none. Where a tree has no index, or an action no line in it, its times, verdict
and tokens are not known: they are None, never made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from otel_kernel_trace.actions import Agent

if TYPE_CHECKING:
    from otel_kernel_trace.assessment import Assessment
    from otel_kernel_trace.diagnostics.model import Diagnostic
    from otel_kernel_trace.resources import KernelResources
    from otel_kernel_trace.suspicion import Suspicion


class Outcome(Enum):
    """How a task ended, or that it did not."""

    PASSED = "passed"
    """A verification passed."""
    FAILED = "failed"
    """It ended, there were verifications, and none passed. Of a :class:`~otel_kernel_trace.Trace`
    without a provider nothing tells that it ended: there it is how things stand."""
    UNVERIFIED = "unverified"
    """It ended, and no verification has a verdict."""
    UNFINISHED = "unfinished"
    """It has not ended: it is running, or its process died."""
    UNKNOWN = "unknown"
    """The tree has no index that would say so."""


@dataclass(frozen=True, slots=True)
class Part:
    """A text of an action, and where it is."""

    name: str
    """``prompt``, ``reasoning``, ``result`` …, of a verification also ``source.reference`` and so on."""
    path: str = ""
    """Of its file below the tree's root; empty where only the index has the text."""
    size: int | None = None
    """In bytes; None where it was not asked for."""
    sha256: str = ""
    offset: int | None = None
    """Where the text begins in the file; None where it is all of it."""
    inline: str | None = None
    """The text itself, where no file has it."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a model was paid for."""

    input: int = 0
    output: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.input + other.input, self.output + other.output)

    def __bool__(self) -> bool:
        return bool(self.input or self.output)


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that an agent did."""

    op_name: str
    task_id: str
    step: int
    action_type: str
    """Name of an :class:`~otel_kernel_trace.ActionType` member, or of any agent."""
    agent: Agent | None
    """None for agents of the program's own."""
    copy: int = 1
    """Which of several judgements of its step it is."""
    start: int | None = None
    end: int | None = None
    """None where it has not ended, or the time is not known."""
    is_pending: bool = False
    """Whether it began and has not ended."""
    passed: bool | None = None
    """A Verifier's verdict."""
    error: str = ""
    """Why its span is an error: an exception, a verification that failed."""
    speedup: float | None = None
    profile: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """Measurements of a Verifier."""
    framework: str = ""
    """What the reference is written in."""
    impl_type: str = ""
    """What the kernel is written in."""
    tokens: Tokens | None = None
    model: str = ""
    """Name of the model that answered."""
    trace_id: str = ""
    span_id: str = ""
    parent_id: str = ""
    judges: str = ""
    """Id of the span that a Conductor's action judges."""
    incomplete: str = ""
    """What is known to be missing, a line each."""
    parts: Mapping[str, Part] = field(default_factory=lambda: MappingProxyType({}))
    """By name, in the order in which they were given."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """What its log says is wrong, in the log's order."""
    resources: tuple[KernelResources, ...] = ()
    """Of the entry functions that were assembled."""
    assessment: Assessment | None = None
    """Of a verification: is it right, is it fast, can that be believed."""
    suspicions: tuple[Suspicion, ...] = ()
    """Why its measurement or its kernel is not to be trusted as it stands."""
    builder: Mapping[str, str | int | float | bool] = field(default_factory=lambda: MappingProxyType({}))
    """What a builder's log right under it came to, as of a :class:`Stage`."""
    builder_lines: tuple[Mapping[str, str | int | float | bool], ...] = ()
    """Lines of that log that are events, as of a :class:`Stage`."""
    description: Mapping[str, str | int] = field(default_factory=lambda: MappingProxyType({}))
    """What its own span, or the resource, says that the task is made with; see :class:`Task`."""

    @property
    def duration(self) -> int | None:
        """Nanoseconds that it took."""
        return None if self.start is None or self.end is None else self.end - self.start


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A request to a model, as another instrumentation saw it."""

    name: str
    start: int | None
    end: int | None
    model: str
    tokens: Tokens | None
    error: str
    trace_id: str
    span_id: str
    parent_id: str


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of compiling, running or measuring, or a command."""

    name: str
    start: int | None
    end: int | None
    trace_id: str
    span_id: str
    parent_id: str
    """Of the action or the stage around it."""
    error: str = ""
    cpu_time: float | None = None
    """Seconds, of the process itself."""
    children_cpu_time: float | None = None
    """Seconds, of child processes."""
    peak_memory: int | None = None
    """Bytes."""
    input_size: int | None = None
    output_size: int | None = None
    """Bytes."""
    command: tuple[str, ...] = ()
    """The command line, where the stage is a command."""
    exit_code: int | None = None
    signal: str = ""
    """Name of the signal that ended the command."""
    macros: tuple[str, ...] = ()
    """Those in force, without ``-D``."""
    outputs: Mapping[str, Part] = field(default_factory=lambda: MappingProxyType({}))
    """``stdout``, ``stderr``, the builder's ``log`` and the times of an engine's ``layers`` (JSON), as far as
    they are there."""
    diagnostics: tuple[Diagnostic, ...] = ()
    resources: tuple[KernelResources, ...] = ()
    builder: Mapping[str, str | int | float | bool] = field(default_factory=lambda: MappingProxyType({}))
    """What a builder's log came to, by the last words of the attributes ``kernel_trace.builder.…``."""
    builder_lines: tuple[Mapping[str, str | int | float | bool], ...] = ()
    """Lines of that log that are events, each by the last words of its attributes' names."""
    incomplete: str = ""
    """What is known to be missing of it, a line each."""

    @property
    def duration(self) -> int | None:
        """Nanoseconds that it took."""
        return None if self.start is None or self.end is None else self.end - self.start


@dataclass(frozen=True, slots=True)
class Summary:
    """A task in a line."""

    op_name: str
    task_id: str
    outcome: Outcome
    steps: int
    """Number of the last step."""
    actions: int
    """All of them, a Conductor's too."""
    verified: int
    """Verifications that have a verdict."""
    passed: int
    """Of these, how many passed."""
    first_pass: int | None
    """The step of the first verification that passed."""
    best_speedup: float | None
    """Of verifications that passed."""
    tokens: Tokens
    start: int | None
    end: int | None
    """When what is known of it ended; it may go on."""
    wall_time: int | None
    """Nanoseconds of its runs, without the time between them."""
    pending: int
    """Actions that began and did not end."""
    last: str
    """Type of the action that began last."""
    last_step: int
    first_failed: int | None
    """The step of the first verification or action that failed."""
    errors: tuple[tuple[str, int], ...] = ()
    """Signatures of what verifications failed with, each with their number, the most frequent first."""
    stalled: int = 0
    """How many of its last verifications in a row failed with the same error; 0 where the last passed."""


@dataclass(frozen=True, slots=True)
class Task:
    """All that is known of one attempt to produce a kernel."""

    summary: Summary
    actions: tuple[Action, ...]
    """By step; what a Conductor said of one comes behind it."""
    model_calls: tuple[ModelCall, ...]
    """By start."""
    runs: tuple[tuple[int, int | None], ...] = ()
    """Begin and end of its root spans; None for an end that is not known."""
    stages: tuple[Stage, ...] = ()
    """By start."""
    description: Mapping[str, str | int] = field(default_factory=lambda: MappingProxyType({}))
    """What it is made with, by attributes' names: :func:`otel_kernel_trace.attributes.of_description`."""
