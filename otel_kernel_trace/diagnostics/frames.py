"""Which frame of a Python stack is the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

_OTHER_LANGUAGES: Final = (".cc", ".cpp", ".cxx", ".h", ".hpp", ".cu", ".pyx", ".pxi")
"""TVM and Cython put their own frames between Python's."""
_LIBRARIES: Final = (
    "site-packages",
    "dist-packages",
    "/lib/python3",
    "\\lib\\python",
    "/lib64/python3",
    "<frozen ",
    "<__array_function__",
    "\\Lib\\",
)


class Frame(NamedTuple):
    """A call on a Python stack."""

    file: str
    line: int
    function: str | None


def users(frames: Sequence[Frame], is_syntax_error: bool = False) -> Frame | None:
    """The innermost frame in the user's own code, or, where all are a library's, the innermost of all.

    Args:
        frames: the innermost last.
        is_syntax_error: then the last one is the place itself, whoever's code it is.
    """
    if not frames:
        return None
    own = (
        frame
        for frame in reversed(frames)
        if not frame.file.endswith(_OTHER_LANGUAGES) and not any(part in frame.file for part in _LIBRARIES)
    )
    frame = frames[-1] if is_syntax_error else next(own, frames[-1])
    return frame._replace(function=None) if frame.function == "<module>" else frame
