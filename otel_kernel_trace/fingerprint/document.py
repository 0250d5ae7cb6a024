"""Fingerprints as JSON, out and in; docs/json.md describes every field.

Fields may be added; none is renamed or removed within the schema's version.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from otel_kernel_trace.fingerprint.fingerprint import Fingerprint, Refusal, StageCost
from otel_kernel_trace.reader import documents
from otel_kernel_trace.reader.documents import Json, of_tokens
from otel_kernel_trace.reader.model import Outcome, Tokens
from otel_kernel_trace.resources import KernelResources

SCHEMA: Final = "otel-kernel-trace.fingerprint.v1"

_Value = TypeVar("_Value")


def text_of(fingerprints: Iterable[Fingerprint]) -> str:
    """A document of fingerprints, the same for the same ones, that every reader of JSON takes."""
    told: Json = {"schema": SCHEMA, "tasks": [of_fingerprint(one) for one in fingerprints]}
    return documents.text_of(told) + "\n"


def of_fingerprint(one: Fingerprint) -> dict[str, Json]:
    """One fingerprint; its fields are those of the class."""
    kernels: list[Json] = [_of_values(kernel) for kernel in one.kernels]
    return {
        "op_name": one.op_name,
        "task_id": one.task_id,
        "outcome": one.outcome.value,
        "engine_version": one.engine_version,
        "precision": one.precision,
        "peak_memory_mb": _finite(one.peak_memory_mb),
        "fusion_rate": _finite(one.fusion_rate),
        "warnings": list(one.warnings),
        "fusions_made": one.fusions_made,
        "fusions_refused": one.fusions_refused,
        "fused": list(one.fused),
        "refused": [_of_values(refusal) for refusal in one.refused],
        "compile_time": _finite(one.compile_time),
        "kernels": kernels,
        "stages": {name: _of_values(cost) for name, cost in one.stages.items()},
        "git_commit": one.git_commit,
        "seeds": dict(one.seeds),
        "toolchain": dict(one.toolchain),
        "device": dict(one.device),
        "steps": one.steps,
        "verified": one.verified,
        "passed": one.passed,
        "first_pass_step": one.first_pass,
        "best_speedup": _finite(one.best_speedup),
        "tokens": of_tokens(one.tokens),
        "tokens_by_model": {model: of_tokens(tokens) for model, tokens in one.tokens_by_model.items()},
        "error_categories": dict(one.error_categories),
        "error_signatures": list(one.error_signatures),
        "undiagnosed": one.undiagnosed,
        "suspicions": list(one.suspicions),
        "max_registers": _most(kernel.registers for kernel in one.kernels),
        "max_spill_bytes": _most(spill_bytes(kernel) for kernel in one.kernels),
    }


def spill_bytes(kernel: KernelResources) -> int | None:
    """Bytes that a kernel stores and loads for want of registers, together."""
    told = [value for value in (kernel.spill_stores, kernel.spill_loads) if value is not None]
    return sum(told) if told else None


def fingerprints_in(text: str) -> list[Fingerprint]:
    """The fingerprints of a document; unknown fields are passed over.

    Raises:
        ValueError: it is none, and the message says where it is not.
    """
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise ValueError("no JSON of fingerprints: nested too deep") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"no fingerprints: its schema is not {SCHEMA}")
    tasks = document.get("tasks")
    if not isinstance(tasks, list):
        raise ValueError("no fingerprints: tasks is no list")
    found = []
    for number, told in enumerate(tasks):
        try:
            found.append(_fingerprint(told))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"tasks[{number}]: {error}") from error
    return found


def _fingerprint(told: object) -> Fingerprint:
    given = _Fields(told)
    return Fingerprint(
        op_name=given.one("op_name", _string, ""),
        task_id=given.one("task_id", _string, ""),
        outcome=given.one("outcome", Outcome, Outcome.UNKNOWN),
        engine_version=given.one("engine_version", _string, None),
        precision=given.one("precision", _string, None),
        peak_memory_mb=given.one("peak_memory_mb", _number, None),
        fusion_rate=given.one("fusion_rate", _number, None),
        warnings=given.several("warnings", _string),
        fusions_made=given.one("fusions_made", _whole, None),
        fusions_refused=given.one("fusions_refused", _whole, None),
        fused=given.several("fused", _string),
        refused=given.several("refused", _refusal),
        compile_time=given.one("compile_time", _number, None),
        kernels=given.several("kernels", _kernel),
        stages=given.by_name("stages", _stage),
        git_commit=given.one("git_commit", _string, None),
        seeds=given.by_name("seeds", _seed),
        toolchain=given.by_name("toolchain", _string),
        device=given.by_name("device", _string),
        steps=given.one("steps", _whole, 0),
        verified=given.one("verified", _whole, 0),
        passed=given.one("passed", _whole, 0),
        first_pass=given.one("first_pass_step", _whole, None),
        best_speedup=given.one("best_speedup", _number, None),
        tokens=given.one("tokens", _tokens, Tokens()),
        tokens_by_model=given.by_name("tokens_by_model", _tokens),
        error_categories=given.by_name("error_categories", _whole),
        error_signatures=given.several("error_signatures", _string),
        undiagnosed=given.one("undiagnosed", _whole, 0),
        suspicions=given.several("suspicions", _string),
    )


_Default = TypeVar("_Default")


class _Fields:
    """Fields of a JSON object, each read by what makes a value of it."""

    def __init__(self, told: object) -> None:
        if not isinstance(told, dict):
            raise ValueError(f"an object was expected, not {_shown(told)}")
        self._told = told

    def one(self, name: str, read: Callable[[object], _Value], default: _Default) -> _Value | _Default:
        value = self._told.get(name)
        return default if value is None else self._read(name, read, value)

    def several(self, name: str, read: Callable[[object], _Value]) -> tuple[_Value, ...]:
        value = self._told.get(name, [])
        if not isinstance(value, list):
            raise ValueError(f"{name} is a list, not {_shown(value)}")
        return tuple(self._read(name, read, item) for item in value)

    def by_name(self, name: str, read: Callable[[object], _Value]) -> Mapping[str, _Value]:
        value = self._told.get(name, {})
        if not isinstance(value, dict):
            raise ValueError(f"{name} is an object, not {_shown(value)}")
        return MappingProxyType({key: self._read(name, read, item) for key, item in value.items()})

    @staticmethod
    def _read(name: str, read: Callable[[object], _Value], value: object) -> _Value:
        try:
            return read(value)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{name}: {error}") from error


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a string was expected, not {_shown(value)}")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"a number was expected, not {_shown(value)}")
    return float(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a whole number was expected, not {_shown(value)}")
    return value


def _seed(value: object) -> int | str:
    return value if isinstance(value, str) else _whole(value)


def _tokens(value: object) -> Tokens:
    given = _Fields(value)
    return Tokens(given.one("input", _whole, 0), given.one("output", _whole, 0))


def _refusal(value: object) -> Refusal:
    given = _Fields(value)
    return Refusal(given.one("layers", _string, ""), given.one("reason", _string, ""))


def _stage(value: object) -> StageCost:
    given = _Fields(value)
    return StageCost(given.one("seconds", _number, None), given.one("peak_memory_mb", _number, None))


def _kernel(value: object) -> KernelResources:
    given = _Fields(value)
    return KernelResources(
        entry=given.one("entry", _string, ""),
        arch=given.one("arch", _string, ""),
        registers=given.one("registers", _whole, None),
        spill_stores=given.one("spill_stores", _whole, None),
        spill_loads=given.one("spill_loads", _whole, None),
        stack_frame=given.one("stack_frame", _whole, None),
        shared_memory=given.one("shared_memory", _whole, None),
        constant_memory=given.one("constant_memory", _whole, None),
        barriers=given.one("barriers", _whole, None),
        compile_time=given.one("compile_time", _number, None),
    )


def _of_values(value: Refusal | StageCost | KernelResources) -> dict[str, Json]:
    return {
        name: _finite(field) if isinstance(field, float) else field
        for name, field in dataclasses.asdict(value).items()
    }


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
