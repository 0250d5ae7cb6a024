"""A source as the rules need it: without comments and texts, parsed where that is safe. Linear.

A parser of CPython may overflow the C stack on an expression that nests deep
(https://docs.python.org/3/library/ast.html#ast.parse), so what might nest deep is not
given to it. Texts are blanked before: they may hold anything, and the parser warns of some.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_MAX_PARSED = 100_000
"""Characters; a kernel has some thousands. In what is longer, calls and assignments alone are found."""
_MAX_OPERATORS = 500
"""In a statement; each may be a level of nesting."""
_MAX_ELIFS = 200
_MAX_SOURCE = 2_000_000

_PYTHON: Final = re.compile(
    r"(#[^\n]*)"
    r'|([A-Za-z]{0,3})("""[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*(?:"""|\Z)'
    r"|'''[^'\\]*(?:(?:\\[\s\S]|'(?!''))[^'\\]*)*(?:'''|\Z)"
    r'|"[^"\\\n]*(?:\\[\s\S][^"\\\n]*)*"?'
    r"|'[^'\\\n]*(?:\\[\s\S][^'\\\n]*)*'?)"
)
_CPP: Final = re.compile(
    r'//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|R"\([\s\S]*?(?:\)"|\Z)|"[^"\\\n]*(?:\\[\s\S][^"\\\n]*)*"?'
    r"|'(?:[^'\\\n]|\\[^\n]){1,8}'"
)
_LOOKS_LIKE_CPP: Final = re.compile(r"__global__|__aicore__|#\s{0,8}include\b|\bextern \"C\"|PYBIND11_MODULE")
_LOOKS_LIKE_PYTHON: Final = re.compile(r"^(?:def |import |from \w|class \w|@\w|if __name__)", re.MULTILINE)
_NOT_BLANK: Final = re.compile(r"[^\n]")
_NUMBER_AND_WORD: Final = re.compile(r"\b([0-9][0-9_.]{0,40})(and|else|for|if|in|is|not|or)\b")
_DEEPER: Final = re.compile(r"[.+\-*/~(\[{&|^%@<>!]|\b(?:not|lambda|if|await|yield)\b")


@dataclass(frozen=True, slots=True)
class Cpp:
    """C++ or CUDA, alone or in a text of a Python source."""

    code: str
    """Comments and texts are blanks."""
    first_line: int
    """Of the whole source, from 1."""

    def line_at(self, position: int) -> int:
        """Of the whole source."""
        return self.first_line + self.code.count("\n", 0, position)


class Source:
    """A source. What is asked for is worked out once."""

    def __init__(self, text: str) -> None:
        self.text = text[:_MAX_SOURCE].replace("\r\n", "\n")

    def line(self, number: int) -> str:
        """A line without the blanks around it; empty where there is none of that number."""
        starts = self._starts
        if not 0 < number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].strip()

    @cached_property
    def is_python(self) -> bool:
        """Whether it is Python, as far as one look tells."""
        if not self.text.strip():
            return False
        return bool(_LOOKS_LIKE_PYTHON.search(self.text)) or not _LOOKS_LIKE_CPP.search(self.text)

    @cached_property
    def code(self) -> str:
        """Python with blanks for comments and texts, and C++ alone likewise; lines stay where they are."""
        return self._python[0] if self.is_python else _CPP.sub(_blanked, self.text)

    @cached_property
    def tree(self) -> ast.Module | None:
        """The parsed Python, with empty texts; None for what is none, too long or too deep."""
        if not self.is_python or len(self.text) > _MAX_PARSED or not self._is_flat():
            return None
        try:
            return ast.parse(_NUMBER_AND_WORD.sub(r"\1 \2", self.code))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @cached_property
    def cpp(self) -> tuple[Cpp, ...]:
        """Its C++ and CUDA parts."""
        if not self.is_python:
            return (Cpp(self.code, 1),) if self.code.strip() else ()
        return tuple(
            Cpp(_CPP.sub(_blanked, text), line)
            for line, text in self._python[1]
            if _LOOKS_LIKE_CPP.search(text) or "at::" in text or "torch::" in text
        )

    @cached_property
    def texts(self) -> tuple[tuple[int, str], ...]:
        """Texts in Python, each with the line in which it begins."""
        return tuple(self._python[1]) if self.is_python else ()

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    @cached_property
    def _python(self) -> tuple[str, list[tuple[int, str]]]:
        pieces: list[str] = []
        texts: list[tuple[int, str]] = []
        end = 0
        for found in _PYTHON.finditer(self.text):
            pieces.append(self.text[end : found.start()])
            end = found.end()
            if found[1] is not None:
                continue  # a comment
            prefix, literal = found[2], found[3]
            quotes = 3 if literal[:3] in ('"""', "'''") else 1
            is_closed = len(literal) >= 2 * quotes and literal.endswith(literal[:quotes])
            inside = literal[quotes : -quotes if is_closed else None]
            texts.append((bisect_right(self._starts, found.start()), inside))
            # Line ends are kept, also those after a backslash, which a short text needs.
            kept = _NOT_BLANK.sub(" ", inside) if quotes == 3 else inside.count("\n") * "\\\n"
            pieces += [prefix, literal[:quotes], kept, literal[:quotes] if is_closed else ""]
        pieces.append(self.text[end:])
        return "".join(pieces), texts

    def _is_flat(self) -> bool:
        """Whether no statement can nest deep."""
        if self.code.count("elif") > _MAX_ELIFS:
            return False
        open_brackets = operators = 0
        for line in self.code.split("\n"):
            operators += len(_DEEPER.findall(line))
            if operators > _MAX_OPERATORS:
                return False
            for bracket in "([{":
                open_brackets += line.count(bracket)
            for bracket in ")]}":
                open_brackets -= line.count(bracket)
            if open_brackets <= 0 and not line.endswith("\\"):
                open_brackets = operators = 0
        return True


def _blanked(found: re.Match[str]) -> str:
    return _NOT_BLANK.sub(" ", found[0])
