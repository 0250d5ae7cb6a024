"""The names of the span attributes that this package reads and writes.

A span that carries them is an action, whoever made it. Model calls use
OpenTelemetry's GenAI semantic conventions (``gen_ai.*``) and have no names here
beyond those that say which agent acts, and what it spent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from otel_kernel_trace.actions import agent_of

Attributes = dict[str, str | int]
"""What this package puts on spans."""

PREFIX: Final = "kernel_trace."
"""How the names of this package's own begin."""

OP_NAME: Final = "kernel_trace.op_name"
"""Operator that the kernel computes (string)."""

TASK_ID: Final = "kernel_trace.task_id"
"""The attempt to produce one kernel that this action belongs to (string)."""

STEP: Final = "kernel_trace.step"
"""Number of the action in its task, from 1 (int); for a Conductor, the step it judges."""

ACTION_TYPE: Final = "kernel_trace.action_type"
"""Name of an :class:`~otel_kernel_trace.ActionType` member, or the user's name for an agent."""

PART_PREFIX: Final = "kernel_trace.part."
"""``kernel_trace.part.<name>`` holds one text of the action (string)."""

PROMPT: Final = "prompt"
REASONING: Final = "reasoning"
RESULT: Final = "result"
ERROR_LOG: Final = "error_log"

VERIFY_RESULT: Final = "kernel_trace.verify.result"
"""The verdict, as the Verifier gave it (string)."""

VERIFY_PROFILE: Final = "kernel_trace.verify.profile"
"""Measurements (string, JSON)."""

VERIFY_FRAMEWORK: Final = "kernel_trace.verify.framework"
"""Framework of the reference task: ``torch``, ``mindspore``, ``numpy`` … (string)."""

VERIFY_IMPL_TYPE: Final = "kernel_trace.verify.impl_type"
"""Language of the implementation: ``triton``, ``swft``, ``numba`` … (string)."""

VERIFY_SOURCE_PREFIX: Final = "kernel_trace.verify.source."
VERIFY_SOURCE_REFERENCE: Final = "kernel_trace.verify.source.reference"
VERIFY_SOURCE_IMPLEMENTATION: Final = "kernel_trace.verify.source.implementation"
VERIFY_SOURCE_SCRIPT: Final = "kernel_trace.verify.source.script"

_VERIFICATION: Final = {
    name.rpartition(".")[2]: name
    for name in (
        VERIFY_RESULT,
        VERIFY_PROFILE,
        VERIFY_FRAMEWORK,
        VERIFY_IMPL_TYPE,
        VERIFY_SOURCE_REFERENCE,
        VERIFY_SOURCE_IMPLEMENTATION,
        VERIFY_SOURCE_SCRIPT,
    )
}

LOG_DIR: Final = "kernel_trace.log_dir"
"""Absolute path of the tree that already holds this record (string).

:class:`~otel_kernel_trace.Trace` writes its files itself and then shows the same
span to the program's own provider; this says where the files are, and keeps an
exporter for the same tree from writing them again.
"""

LEVEL: Final = "kernel_trace.level"
"""The level at which the span was made, where that is below ``info`` and texts may be left out (string)."""

INCOMPLETE: Final = "kernel_trace.incomplete"
"""What is known to be missing of a record because the SDK's limits cut it (string, one line each)."""

PENDING: Final = "kernel_trace.pending"
"""On a span in the index: true where it had begun and not ended (bool)."""

COPY: Final = "kernel_trace.copy"
"""On a span in the index: which of several judgements of its step it is, from 2 (int)."""

RESULT_IS_DOCUMENT: Final = "kernel_trace.result_is_document"
"""On a span of an export: true where the result is what its file has, and no reply to be parsed (bool)."""

LAYOUT: Final = "kernel_trace.layout"
"""On a span in the index: name of the tree's layout (string)."""

JUDGES: Final = "kernel_trace.judges"
"""On a Conductor's span: attribute (bool, true) of the link to the span of the action that it judges."""

REDACTED: Final = "kernel_trace.redacted"
"""How many secrets were taken out of the span's texts (int), each with a marker in its place.

Beside it, by kind, ``kernel_trace.redacted.email`` and so on.
"""

DIAGNOSTIC: Final = "kernel_trace.diagnostic"
"""Name of the event that a Verifier's or a stage's span has for each thing its log says is wrong.

The attributes below are the event's; on the span itself they tell of the first error.
"""
DIAGNOSTIC_TOOL: Final = "kernel_trace.diagnostic.tool"
DIAGNOSTIC_SEVERITY: Final = "kernel_trace.diagnostic.severity"
DIAGNOSTIC_CATEGORY: Final = "kernel_trace.diagnostic.category"
DIAGNOSTIC_MESSAGE: Final = "kernel_trace.diagnostic.message"
DIAGNOSTIC_FILE: Final = "kernel_trace.diagnostic.file"
DIAGNOSTIC_LINE: Final = "kernel_trace.diagnostic.line"
DIAGNOSTIC_COLUMN: Final = "kernel_trace.diagnostic.column"
DIAGNOSTIC_IDENTIFIER: Final = "kernel_trace.diagnostic.identifier"
DIAGNOSTIC_SIGNATURE: Final = "kernel_trace.diagnostic.signature"
DIAGNOSTIC_CODE: Final = "kernel_trace.diagnostic.code"
DIAGNOSTIC_FUNCTION: Final = "kernel_trace.diagnostic.function"
DIAGNOSTIC_LOG_LINE: Final = "kernel_trace.diagnostic.log_line"
DIAGNOSTIC_NOTES: Final = "kernel_trace.diagnostic.notes"
"""String array."""
DIAGNOSTIC_FIGURE_PREFIX: Final = "kernel_trace.diagnostic.figure."
"""``kernel_trace.diagnostic.figure.<name>`` holds a number that the log tells (float)."""
DIAGNOSTIC_ERRORS: Final = "kernel_trace.diagnostic.errors"
"""Number of errors in the log (int); on the span."""
DIAGNOSTIC_WARNINGS: Final = "kernel_trace.diagnostic.warnings"
"""Number of warnings in the log (int); on the span."""

RESOURCES: Final = "kernel_trace.resources"
"""What each entry function needs of the device, as the assembler says (string, JSON list)."""

SUSPICIONS: Final = "kernel_trace.suspicions"
"""Why a measurement or a kernel is not to be trusted as it stands (string, JSON list)."""

STAGE: Final = "kernel_trace.stage"
"""Name of a stage of compiling, running or measuring; its span is no action (string)."""
STAGE_CPU_TIME: Final = "kernel_trace.stage.cpu_time"
"""Seconds of processor time of this process (float)."""
STAGE_CHILDREN_CPU_TIME: Final = "kernel_trace.stage.children_cpu_time"
"""Seconds of processor time of child processes that were waited for (float)."""
STAGE_PEAK_MEMORY: Final = "kernel_trace.stage.peak_memory"
"""Bytes (int)."""
STAGE_INPUT_SIZE: Final = "kernel_trace.stage.input_size"
"""Bytes (int)."""
STAGE_OUTPUT_SIZE: Final = "kernel_trace.stage.output_size"
"""Bytes (int)."""
STAGE_MACROS: Final = "kernel_trace.stage.macros"
"""Macros in force, as on the command line without ``-D`` (string array)."""
STAGE_SIGNAL: Final = "kernel_trace.stage.signal"
"""Name of the signal that ended the command (string)."""
STAGE_STDOUT: Final = "kernel_trace.stage.stdout"
STAGE_STDERR: Final = "kernel_trace.stage.stderr"
PROCESS_COMMAND_ARGS: Final = "process.command_args"
PROCESS_EXIT_CODE: Final = "process.exit.code"
"""https://opentelemetry.io/docs/specs/semconv/registry/attributes/process/"""

BUILDER: Final = "kernel_trace.builder"
"""Name of the event for each line of a builder's log, such as TensorRT's; under the current stage.
Its attributes are of :mod:`otel_kernel_trace.builder`."""
BUILDER_PREFIX: Final = "kernel_trace.builder."
"""Before the name of each fact on the event (see :class:`~otel_kernel_trace.builder.BuilderLine`)
and of each figure on the span (see :class:`~otel_kernel_trace.builder.BuilderSummary`)."""
BUILDER_SEVERITY: Final = "kernel_trace.builder.severity"
"""``INTERNAL_ERROR``, ``ERROR``, ``WARNING``, ``INFO`` or ``VERBOSE`` (string); on the event."""
BUILDER_MESSAGE: Final = "kernel_trace.builder.message"
"""What the line says, a long one cut (string); on the event."""
BUILDER_KIND: Final = "kernel_trace.builder.kind"
"""What the line tells of, where that is known (string); on the event."""
BUILDER_LOG: Final = "kernel_trace.builder.log"
"""The whole log, each line with its severity's letter before (string); on the span."""
BUILDER_LINES: Final = "kernel_trace.builder.lines"
BUILDER_ERRORS: Final = "kernel_trace.builder.errors"
BUILDER_WARNINGS: Final = "kernel_trace.builder.warnings"
BUILDER_FUSIONS_MADE: Final = "kernel_trace.builder.fusions_made"
BUILDER_FUSIONS_REFUSED: Final = "kernel_trace.builder.fusions_refused"
BUILDER_LAYERS_BEFORE: Final = "kernel_trace.builder.layers_before"
BUILDER_LAYERS_AFTER: Final = "kernel_trace.builder.layers_after"
BUILDER_TACTICS_CHOSEN: Final = "kernel_trace.builder.tactics_chosen"
BUILDER_TACTICS_SKIPPED: Final = "kernel_trace.builder.tactics_skipped"
BUILDER_MISSING_IMPLEMENTATIONS: Final = "kernel_trace.builder.missing_implementations"
BUILDER_FALLBACKS: Final = "kernel_trace.builder.fallbacks"
"""These are numbers of things (int); on the span."""
BUILDER_FUSION_RATE: Final = "kernel_trace.builder.fusion_rate"
"""At most 1 (float); on the span."""
BUILDER_FUSION_BASIS: Final = "kernel_trace.builder.fusion_basis"
"""What the rate is of: ``layers`` or ``decisions`` (string); on the span."""
BUILDER_PEAK_MEMORY: Final = "kernel_trace.builder.peak_memory"
"""Bytes (int); on the span."""
BUILDER_ENGINE_TIME: Final = "kernel_trace.builder.engine_time"
"""Seconds (float); on the span."""
BUILDER_ENGINE_VERSION: Final = "kernel_trace.builder.engine_version"
BUILDER_PRECISION: Final = "kernel_trace.builder.precision"
"""As the log tells them (strings); on the span."""

LAYER_TIMES: Final = "kernel_trace.layers"
"""What each layer of an engine took over the runs (string, JSON list); on the span."""

ENGINE_VERSION: Final = "kernel_trace.engine.version"
"""Version of what builds or runs the kernels, such as TensorRT (string).

This and what follows is on a task's root span. Any action may carry it instead, and so may the
resource: a reader takes what is told last.
"""
ENGINE_PRECISION: Final = "kernel_trace.engine.precision"
"""``fp16``, ``fp16+int8`` … (string)."""
SEED_PREFIX: Final = "kernel_trace.seed."
"""``kernel_trace.seed.<name>`` is the seed of one random number generator (int or string)."""
TOOLCHAIN_PREFIX: Final = "kernel_trace.toolchain."
"""``kernel_trace.toolchain.<name>`` is the version of a compiler or a library (string)."""
VCS_REVISION: Final = "vcs.ref.head.revision"
"""The commit that is checked out (string);
https://opentelemetry.io/docs/specs/semconv/registry/attributes/vcs/"""
DEVICE_MODEL: Final = "hw.model"
DEVICE_DRIVER: Final = "hw.driver_version"
"""https://opentelemetry.io/docs/specs/semconv/registry/attributes/hardware/"""
RUNTIME_NAME: Final = "process.runtime.name"
RUNTIME_VERSION: Final = "process.runtime.version"
HOST_ARCH: Final = "host.arch"
OS_TYPE: Final = "os.type"
"""https://opentelemetry.io/docs/specs/semconv/registry/attributes/"""

_DESCRIPTION: Final = (
    ENGINE_VERSION,
    ENGINE_PRECISION,
    VCS_REVISION,
    DEVICE_MODEL,
    DEVICE_DRIVER,
    RUNTIME_NAME,
    RUNTIME_VERSION,
    HOST_ARCH,
    OS_TYPE,
)

GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
"""https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-agent-spans/"""

MESSAGE_PREFIXES: Final = (
    "gen_ai.input.",
    "gen_ai.output.",
    "gen_ai.system_instructions",
    "gen_ai.tool.",
    "gen_ai.prompt",
    "gen_ai.completion",
    "input.value",
    "output.value",
    "llm.",
)
"""How the names of attributes begin that hold what a model was asked and said, in any convention."""


def of_task(op_name: object, task_id: object) -> Attributes:
    """Attributes of a task's root span."""
    return {OP_NAME: text(op_name), TASK_ID: text(task_id)}


def of_action(op_name: object, task_id: object, step: int | None, action_type: str) -> Attributes:
    """Attributes that every action has from its start; without a step it is counted where it is written."""
    agent = agent_of(action_type)
    return {
        **of_task(op_name, task_id),
        **({} if step is None else {STEP: step}),
        ACTION_TYPE: action_type,
        GEN_AI_OPERATION_NAME: "invoke_agent",
        GEN_AI_AGENT_NAME: action_type if agent is None else agent.value,
    }


def of_stage(op_name: object, task_id: object, name: str) -> Attributes:
    """Attributes that every stage has from its start."""
    return {**of_task(op_name, task_id), STAGE: name}


def of_parts(parts: Mapping[str, object]) -> Attributes:
    """Attributes for texts by part name; None is a part that was not given."""
    return {PART_PREFIX + name: text(value) for name, value in parts.items() if value is not None}


def of_verification(given: Mapping[str, object]) -> Attributes:
    """Attributes of what a Verifier found and compared; None is what was not given.

    Args:
        given: by the last words of the attributes' names: ``result``, ``profile``,
            ``framework``, ``impl_type``, ``reference``, ``implementation``, ``script``.
    """
    return {
        _VERIFICATION[key]: _json(value) if isinstance(value, (Mapping, list)) else text(value)
        for key, value in given.items()
        if value is not None
    }


def of_description(
    *,
    engine_version: str | None = None,
    precision: str | None = None,
    seed: int | str | Mapping[str, int | str] | None = None,
    commit: str | None = None,
    device: str | None = None,
    driver_version: str | None = None,
    toolchain: Mapping[str, str] | None = None,
) -> Attributes:
    """Attributes for what a task is made with; None is what was not given."""
    seeds = seed if isinstance(seed, Mapping) else {} if seed is None else {"default": seed}
    texts = {
        ENGINE_VERSION: engine_version,
        ENGINE_PRECISION: precision,
        VCS_REVISION: commit,
        DEVICE_MODEL: device,
        DEVICE_DRIVER: driver_version,
        **{TOOLCHAIN_PREFIX + text(name): version for name, version in (toolchain or {}).items()},
    }
    return {
        **{name: text(value) for name, value in texts.items() if value is not None},
        **{SEED_PREFIX + text(name): _seed(value) for name, value in seeds.items()},
    }


def description_in(given: Mapping[str, object]) -> dict[str, str | int]:
    """Of a span's or a resource's attributes those that tell what a task is made with."""
    return {
        name: value if isinstance(value, int) and not isinstance(value, bool) else text(value)
        for name, value in given.items()
        if name in _DESCRIPTION or name.startswith((SEED_PREFIX, TOOLCHAIN_PREFIX))
    }


def _seed(value: object) -> int | str:
    # OTLP's integers have 64 bits; seeds may have more.
    return value if type(value) is int and -(2**63) <= value < 2**63 else text(value)


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=text)
    except (TypeError, ValueError, RecursionError):  # keys that JSON has not, or a circle
        return text(value)


def has_passed(result: object) -> bool:
    """Whether a verdict says that the kernel is right: ``True``, ``"True"``, ``"passed"`` and the like."""
    return text(result).strip().lower() in ("true", "pass", "passed", "ok", "success", "yes", "1")


def text(value: object) -> str:
    """A value as a text, for callers that hand over what they have. Never raises."""
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - it is the caller's own code that runs here
        return f"<{type(value).__name__}: {type(error).__name__} where its text was asked for>"
