"""From findings to diagnostics: whom to believe, what belongs together, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Final

from otel_kernel_trace.diagnostics.finding import Finding, Raised
from otel_kernel_trace.diagnostics.model import Diagnostic
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.signature import signature

_NO_FIGURES: Final = MappingProxyType[str, float]({})
_LOOKUPS: Final = frozenset({"KeyError", "StopIteration"})
"""Exceptions with which programs look something up: what arises in their handling is the trouble."""


def assembled(parsers: Sequence[Parser]) -> tuple[Diagnostic, ...]:
    """What all parsers found, in the log's order."""
    raised: list[Raised] = []
    others: dict[int, tuple[int, list[Finding]]] = {}
    for parser in parsers:
        for finding in parser.findings:
            if isinstance(finding, Raised):
                raised.append(finding)
                continue
            precedence, there = others.setdefault(finding.log_line, (parser.precedence, []))
            if not there or there[0].tool == finding.tool:
                there.append(finding)
            elif parser.precedence > precedence:
                others[finding.log_line] = (parser.precedence, [finding])
    specific = {number: findings for number, (_, findings) in others.items()}
    kept: list[Finding] = []
    for _, chain in groupby(raised, key=lambda each: each.chain):
        kept += _of_chain(list(chain), specific)
    kept += (finding for findings in specific.values() for finding in findings)
    kept.sort(key=lambda finding: finding.log_line)
    return tuple(map(_diagnostic, kept))


def _of_chain(chain: list[Raised], specific: dict[int, list[Finding]]) -> Iterable[Finding]:
    """What remains of a chain of exceptions, the cause first.

    An exception that another parser knows is that parser's finding, and the exceptions before it are its
    cause. What it knows is taken out of ``specific``.
    """
    kept: list[Finding] = []
    for place, exception in enumerate(chain):
        known = specific.pop(exception.raised_at, None) if exception.raised_at else None
        if known is None:
            if kept and not (kept[-1].code in _LOOKUPS and chain[place - 1].handled):
                exception.consequence = True
            elif kept:
                kept[-1].consequence = True
            kept.append(exception)
            continue
        first = known[0]
        before = [finding for finding in kept if isinstance(finding, Raised)]
        for earlier in before:
            first.note(f"{earlier.code}: {earlier.message}" if earlier.code else earlier.message)
        kept = [finding for finding in kept if not isinstance(finding, Raised)]
        same = next((finding for finding in kept if finding.tool == first.tool), None)
        if same is not None:  # a kernel that calls another one: Triton says both
            same.note(_where(first))
            continue
        first.log_line = min([exception.log_line, *(earlier.log_line for earlier in before)])
        if first.file is None and first.line is None:
            first.file, first.line = exception.file, exception.line
            first.function = first.function or exception.function
        elif exception.file is not None and first.file is None:
            first.note(f"called at {exception.file}:{exception.line}")
        first.consequence = first.consequence or bool(kept)
        kept += known
    return kept


def _where(finding: Finding) -> str:
    place = finding.file or finding.function or ""
    return f"then in {place}:{finding.line}: {finding.message}"


def _diagnostic(finding: Finding) -> Diagnostic:
    return Diagnostic(
        tool=finding.tool,
        severity=finding.severity,
        category=finding.category,
        message=finding.message,
        file=finding.file,
        line=finding.line,
        column=finding.column,
        identifier=finding.identifier,
        signature=signature(finding.tool, finding.category, finding.message),
        code=finding.code,
        function=finding.function,
        log_line=finding.log_line,
        notes=tuple(finding.notes),
        figures=MappingProxyType(finding.figures) if finding.figures else _NO_FIGURES,
        consequence=finding.consequence,
    )
