"""What parsers hand over: diagnostics in the making."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from otel_kernel_trace.diagnostics.model import Category, Severity

MOST_NOTES: Final = 32
"""Notes that a finding keeps: nvcc has a hundred candidates for one ``+`` between templates."""
LONGEST_NOTE: Final = 500
"""Characters of each."""


@dataclass(slots=True)
class Finding:
    """A diagnostic to be: its parser goes on writing to it. The fields are those of the diagnostic."""

    tool: str
    severity: Severity
    category: Category
    message: str
    log_line: int
    file: str | None = None
    line: int | None = None
    column: int | None = None
    identifier: str | None = None
    code: str | None = None
    function: str | None = None
    notes: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    consequence: bool = False

    def note(self, text: str) -> None:
        """Adds what the tool adds, as far as there is room."""
        if text and len(self.notes) < MOST_NOTES:
            self.notes.append(text[:LONGEST_NOTE])


@dataclass(slots=True)
class Raised(Finding):
    """A Python exception. Where another parser knows what is raised, the traceback only says where."""

    raised_at: int = 0
    """Line of the log that names the exception; zero where the log ends before."""
    chain: int = 0
    """The same for exceptions that caused one another."""
    handled: bool = False
    """Whether the next one of the chain arose while this one was being handled, not because of it."""
