"""From findings to diagnostics: whom to believe, what belongs together, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
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
    known = {number: findings for number, (_, findings) in others.items()}
    kept: list[Finding] = []
    for _, exceptions in groupby(raised, key=lambda each: each.chain):
        chain: list[Finding] = []
        is_handled = False
        for exception in exceptions:
            found = known.pop(exception.raised_at, [])
            if found:
                chain = _recognised(chain, exception, found)
            else:
                _follow(chain, exception, is_handled=is_handled)
            is_handled = exception.handled
        kept += chain
    kept += (finding for findings in known.values() for finding in findings)
    kept.sort(key=lambda finding: finding.log_line)
    return tuple(map(_diagnostic, kept))


def _follow(chain: list[Finding], exception: Raised, *, is_handled: bool) -> None:
    """Adds to a chain of exceptions, the cause first, one that nobody but Python knows.

    Args:
        is_handled: whether it arose while the one before it was being handled.
    """
    if chain and is_handled and chain[-1].code in _LOOKUPS:
        chain[-1].consequence = True
    elif chain:
        exception.consequence = True
    chain.append(exception)


def _recognised(chain: list[Finding], exception: Raised, found: list[Finding]) -> list[Finding]:
    """A chain of exceptions, the cause first, with one that another parser knows.

    Then it is what that parser found, at the traceback's place, and the exceptions before it are its cause.
    """
    first = found[0]
    causes = [finding for finding in chain if isinstance(finding, Raised)]
    for cause in causes:
        first.note(f"{cause.code}: {cause.message}" if cause.code else cause.message)
    others = [finding for finding in chain if not isinstance(finding, Raised)]
    if any(finding.tool == first.tool for finding in others):  # a kernel that calls another: Triton says both
        others[-1].note(f"then in {first.file or first.function}:{first.line}")
        return others
    if first.message == first.code and causes:  # CompilationError alone: its cause says what is wrong
        cause = causes[-1]
        first.message, first.category, first.identifier = cause.message, cause.category, cause.identifier
    first.log_line = min(finding.log_line for finding in (exception, *causes))
    if first.file is None and first.line is None:
        first.file, first.line = exception.file, exception.line
        first.function = first.function or exception.function
    elif exception.file is not None and first.file is None:
        first.note(f"called at {exception.file}:{exception.line}")
    first.consequence = first.consequence or bool(others)
    return [*others, *found]


def _diagnostic(finding: Finding) -> Diagnostic:
    message = finding.message or finding.severity  # the log ends in the middle of a line
    return Diagnostic(
        tool=finding.tool,
        severity=finding.severity,
        category=finding.category,
        message=message,
        file=finding.file,
        line=finding.line,
        column=finding.column,
        identifier=finding.identifier,
        signature=signature(finding.tool, finding.category, message),
        code=finding.code,
        function=finding.function,
        log_line=finding.log_line,
        notes=tuple(finding.notes),
        figures=MappingProxyType(finding.figures) if finding.figures else _NO_FIGURES,
        consequence=finding.consequence,
    )
