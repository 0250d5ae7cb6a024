"""Of all that a log says, what to look at first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, get_args

from otel_kernel_trace.diagnostics.model import Diagnostic, Severity

_SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)


class Counts(NamedTuple):
    """How much a log says."""

    errors: int
    warnings: int


def first_error(diagnostics: Iterable[Diagnostic]) -> Diagnostic | None:
    """The error to look at first: the first that does not merely follow from another one.

    Where all do (``ninja: build stopped``, ``exit status 1``), the first of these; None without an error.
    """
    following: Diagnostic | None = None
    for diagnostic in diagnostics:
        if diagnostic.severity != "error":
            continue
        if not diagnostic.consequence:
            return diagnostic
        following = following or diagnostic
    return following


def by_weight(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The first error, then other errors, warnings and notes, each in the order of the log."""
    told = list(diagnostics)
    first = first_error(told)
    return sorted(told, key=lambda one: (one is not first, _SEVERITIES.index(one.severity)))


def counts(diagnostics: Iterable[Diagnostic]) -> Counts:
    """Numbers of errors and of warnings."""
    severities = [diagnostic.severity for diagnostic in diagnostics]
    return Counts(severities.count("error"), severities.count("warning"))
