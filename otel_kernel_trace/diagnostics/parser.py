"""What a parser is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line


class Parser(ABC):
    """Reads what one tool writes. A new one is made for each log.

    It is shown the lines that hold one of its :attr:`signs`, and, while it says that it is
    open, every line, its own or not: two compilers may write at once. It keeps what it finds
    in :attr:`findings`, in the log's order, and may go on completing them.
    """

    signs: ClassVar[tuple[str, ...]]
    """Every line with which something begins for this parser has at least one of these."""
    precedence: ClassVar[int] = 1
    """Where two parsers find something in the same line, the higher one is believed."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    @abstractmethod
    def feed(self, line: Line) -> bool:
        """Reads a line, in bounded time, and says whether it has to see the next one, too."""

    def finish(self) -> None:  # noqa: B027 - most have nothing to do
        """The log has ended."""
