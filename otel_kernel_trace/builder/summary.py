"""What a builder's log comes to: one rule for a log that is being written and for one that was."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from otel_kernel_trace import attributes
from otel_kernel_trace.builder.lines import BuilderLine, read_line

FusionBasis = Literal["layers", "decisions"]

_MOST_NODES = 4096
"""Nodes and tensors that are told apart; more are counted each time that they are named."""

_PEAK: Final = "peak of allocators"
_ESTIMATES: Final = frozenset(("Estimated total device memory usage", "Total Activation Memory"))


@dataclass(frozen=True, slots=True)
class BuilderSummary:
    """A builder's log in figures. What the log does not tell is None."""

    lines: int = 0
    errors: int = 0
    """Lines of severity ``ERROR`` or ``INTERNAL_ERROR``."""
    warnings: int = 0
    fusions_made: int = 0
    fusions_refused: int = 0
    layers_before: int | None = None
    """Of the network as it was given. Where a log tells of several, as INT8 calibration does, of the last."""
    layers_after: int | None = None
    """After the last pass over the graph; layers that only change a format are not counted."""
    fusion_rate: float | None = None
    """By :attr:`fusion_basis`: of ``layers`` 1 - after / before, below 0 where they became more; of
    ``decisions``, where no layers were counted, made / (made + refused)."""
    fusion_basis: FusionBasis | None = None
    peak_memory: int | None = None
    """Bytes of device memory: the peak of the builder's allocators, else the largest estimate."""
    tactics_chosen: int = 0
    """Choices between runners; where a log has none of these, the fastest of a runner's tactics."""
    tactics_skipped: int = 0
    engine_time: float | None = None
    """Seconds of engine generation, summed; else of the whole build, as ``trtexec`` tells it."""
    missing_implementations: int = 0
    """Nodes that no implementation was found for."""
    fallbacks: int = 0
    """Tensors or nodes that fall back to a higher precision or to another device."""
    engine_version: str | None = None
    precision: str | None = None

    def attributes(self) -> dict[str, str | int | float]:
        """As attributes of a span; what is None is left out."""
        return {
            name: value for field, name in _ATTRIBUTES.items() if (value := getattr(self, field)) is not None
        }


_ATTRIBUTES: Final = {
    "lines": attributes.BUILDER_LINES,
    "errors": attributes.BUILDER_ERRORS,
    "warnings": attributes.BUILDER_WARNINGS,
    "fusions_made": attributes.BUILDER_FUSIONS_MADE,
    "fusions_refused": attributes.BUILDER_FUSIONS_REFUSED,
    "layers_before": attributes.BUILDER_LAYERS_BEFORE,
    "layers_after": attributes.BUILDER_LAYERS_AFTER,
    "fusion_rate": attributes.BUILDER_FUSION_RATE,
    "fusion_basis": attributes.BUILDER_FUSION_BASIS,
    "peak_memory": attributes.BUILDER_PEAK_MEMORY,
    "tactics_chosen": attributes.BUILDER_TACTICS_CHOSEN,
    "tactics_skipped": attributes.BUILDER_TACTICS_SKIPPED,
    "engine_time": attributes.BUILDER_ENGINE_TIME,
    "missing_implementations": attributes.BUILDER_MISSING_IMPLEMENTATIONS,
    "fallbacks": attributes.BUILDER_FALLBACKS,
    "engine_version": attributes.BUILDER_ENGINE_VERSION,
    "precision": attributes.BUILDER_PRECISION,
}


class Tally:
    """Figures that grow with every line. Bounded in memory; not thread-safe."""

    def __init__(self) -> None:
        self._lines = self._errors = self._warnings = 0
        self._made = self._refused = self._skipped = 0
        self._before: int | None = None
        self._after: int | None = None
        self._peak: int | None = None
        self._estimate: int | None = None
        self._fastest = self._chosen = 0
        self._generation: float | None = None
        self._build: float | None = None
        self._without_implementation = _Names()
        self._fallen_back = _Names()
        self._version: str | None = None
        self._precision: str | None = None

    def add(self, line: BuilderLine) -> None:
        """Count a line."""
        self._lines += 1
        if line.severity == "WARNING":
            self._warnings += 1
        elif line.severity in ("ERROR", "INTERNAL_ERROR"):
            self._errors += 1
        if line.kind is not None:
            self._add_facts(line)

    def _add_facts(self, line: BuilderLine) -> None:
        match line.kind, line.facts:
            case "fusion_made", _:
                self._made += 1
            case "fusion_refused", _:
                self._refused += 1
            case "tactic_skipped", _:
                self._skipped += 1
            case "tactic_chosen", {"milliseconds": _}:
                self._fastest += 1
            case "tactic_chosen", _:
                self._chosen += 1
            case "layers", {"layers": int(layers), "pass": "original"}:
                self._before, self._after = layers, None
            case "layers", {"layers": int(layers), "pass": str(name)} if "reformat" not in name:
                self._after = layers
            case "memory", {"bytes": int(size), "where": str(where)}:
                if where == _PEAK:
                    self._peak = max(self._peak or 0, size)
                elif where in _ESTIMATES:
                    self._estimate = max(self._estimate or 0, size)
            case "engine_time", {"seconds": float(seconds), "phase": "generation"}:
                self._generation = (self._generation or 0.0) + seconds
            case "engine_time", {"seconds": float(seconds)}:
                self._build = (self._build or 0.0) + seconds
            case "no_implementation", {"node": str(node)}:
                self._without_implementation.add(node)
            case "fallback", {"tensor": str(name)} | {"node": str(name)}:
                self._fallen_back.add(name)
            case "version", {"version": str(version)}:
                self._version = version
            case "precision", {"precision": str(precision)}:
                self._precision = precision

    def summary(self) -> BuilderSummary:
        """The figures so far."""
        rate, basis = self._fusion_rate()
        return BuilderSummary(
            lines=self._lines,
            errors=self._errors,
            warnings=self._warnings,
            fusions_made=self._made,
            fusions_refused=self._refused,
            layers_before=self._before,
            layers_after=self._after,
            fusion_rate=rate,
            fusion_basis=basis,
            peak_memory=self._estimate if self._peak is None else self._peak,
            tactics_chosen=self._chosen or self._fastest,
            tactics_skipped=self._skipped,
            engine_time=self._build if self._generation is None else self._generation,
            missing_implementations=self._without_implementation.count,
            fallbacks=self._fallen_back.count,
            engine_version=self._version,
            precision=self._precision,
        )

    def _fusion_rate(self) -> tuple[float | None, FusionBasis | None]:
        if self._before and self._after is not None:
            return 1 - self._after / self._before, "layers"
        decisions = self._made + self._refused
        return (self._made / decisions, "decisions") if decisions else (None, None)


class _Names:
    """How many different names there are."""

    def __init__(self) -> None:
        self.count = 0
        self._known: set[int] = set()

    def add(self, name: str) -> None:
        key = hash(name)
        if key not in self._known:
            self.count += 1
            if len(self._known) < _MOST_NODES:
                self._known.add(key)


_LINE = re.compile(r"[^\n]+")


def read_log(text: str) -> BuilderSummary:
    """What a whole saved log comes to, as of ``trtexec --verbose``; in one linear pass."""
    tally = Tally()
    for match in _LINE.finditer(text):
        tally.add(read_line(match[0]))
    return tally.summary()
