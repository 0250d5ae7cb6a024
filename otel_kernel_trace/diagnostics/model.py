"""What a compiler, a run or a comparison said, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, get_args

Severity = Literal["error", "warning", "note"]
"""``error`` is a fatal one, too."""

Category = Literal[
    "syntax",
    "undefined_name",
    "type",
    "shape",
    "resource",
    "numeric_mismatch",
    "crash",
    "timeout",
    "out_of_memory",
    "environment",
    "other",
]
"""What kind of thing is wrong, the same whoever says it."""

CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that a log says is wrong. What the log does not tell is None."""

    tool: str
    """Who says so: ``nvcc``, ``ptxas``, ``gcc``, ``clang``, ``ld``, ``triton``, ``numba``, ``python`` …"""
    severity: Severity
    category: Category
    message: str
    """The first line of what it says, without file, severity and code."""
    file: str | None = None
    """As the log has it."""
    line: int | None = None
    """From 1; where :attr:`function` is given and :attr:`file` is not, from that function's first line."""
    column: int | None = None
    """As the tool counts: from 1, but Triton from 0."""
    identifier: str | None = None
    """The name that it is about: undefined, unused, an entry function, an operator."""
    signature: str = ""
    """The same for the same trouble in another run: without addresses, paths and numbers that vary."""
    code: str | None = None
    """The tool's own name for it: ``-Wunused-variable``, ``549-D``, ``NameError``."""
    function: str | None = None
    """The function or kernel that it is in."""
    log_line: int = 0
    """Line of the log where it begins, from 1."""
    notes: tuple[str, ...] = ()
    """What the tool adds: candidates, where a template was instantiated, the exception's cause."""
    figures: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Numbers that it tells, by name: of a mismatch ``mismatched``, ``total``, ``share``,
    ``max_absolute_difference``, ``max_relative_difference``, ``rtol``, ``atol``; of a resource
    ``required`` and ``limit`` in bytes."""
    consequence: bool = False
    """Whether it only says that something failed, or passes on what another diagnostic says: ninja's
    ``FAILED:``, an exit status, the exception in which a program wraps a compiler's output."""

    @property
    def headline(self) -> str:
        """Where, as compilers write it, and what."""
        return headline(self.message, self.code, self.file, self.function, self.line, self.column)


def headline(
    message: str,
    code: str | None,
    file: str | None,
    function: str | None,
    line: int | None = None,
    column: int | None = None,
) -> str:
    """A diagnostic in a line: ``mla.cu:10:21: identifier "entry" is undefined``."""
    if code and code.isidentifier():  # what an exception is called says what its message is about
        message = f"{code}: {message}"
    numbers = [str(number) for number in (line, column) if number is not None]
    if file:
        return f"{':'.join([file, *numbers])}: {message}"
    if function and numbers:
        return f"{function}, its line {':'.join(numbers)}: {message}"
    return f"{function}: {message}" if function else message
