"""The preprocessor's macros that are in force for a compiler's command line."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

_COMPILER: Final = re.compile(
    r"(?:.*-)?(?:nvcc|hipcc|gcc|g\+\+|cc|c\+\+|cpp|clang(?:\+\+)?|ic[cx]|icpc|icpx|dpcpp|nvc(?:\+\+)?|tcc|ccec|bisheng)"
    r"(?:-[0-9.]+)?"
)
_LAUNCHERS: Final = frozenset({"ccache", "sccache", "distcc", "icecc"})
_ENVIRONMENT: Final = {
    "nvcc": (("NVCC_PREPEND_FLAGS",), ("NVCC_APPEND_FLAGS",)),
    "hipcc": ((), ("HIPCC_COMPILE_FLAGS_APPEND",)),
}
"""Variables whose flags a compiler itself puts before and behind those of its command line.
https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#nvcc-environment-variables
"""
_FILES: Final = ("--options-file", "-optf")
_DEFINE: Final = ("--define-macro", "-D")
_UNDEFINE: Final = ("--undefine-macro", "-U")
_NOT_OURS: Final = frozenset(
    {"-Xcompiler", "--compiler-options", "-Xptxas", "--ptxas-options", "-Xlinker", "-o"}
)
"""What comes behind is for another program, or a file."""

_MAX_FILE_BYTES: Final = 1_000_000
_MAX_DEPTH: Final = 8


def macros_in(
    args: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None = None
) -> tuple[str, ...]:
    """Macros that a command line defines, as ``X`` or ``X=1``, in the order of their last definition.

    ``-D`` and ``--define-macro`` in any form, what ``-U`` takes back left out, files of options
    (``@file``, and nvcc's ``--options-file``) read, and flags that nvcc and hipcc take from the
    environment. Of a program that is no compiler, and of a shell's line, there are none. What
    nvcc passes to the host's compiler alone (``-Xcompiler``) is left out, as it is not in force on
    the device. Variables such as ``CFLAGS`` are those of build tools: compilers ignore them.

    Args:
        args: the program and its arguments.
        env: its environment.
        cwd: its working folder, where that is another one.
    """
    words = list(args)
    while words and os.path.basename(words[0]) in _LAUNCHERS:
        del words[0]
    program = os.path.basename(words[0]) if words else ""
    if not _COMPILER.fullmatch(program):
        return ()
    before, behind = _ENVIRONMENT.get(program, ((), ()))
    flags = [*_flags(env, before), *words[1:], *_flags(env, behind)]
    macros: dict[str, str] = {}
    following: str | None = None
    for word in _expanded(flags, os.fspath(cwd or "."), is_nvcc=program == "nvcc", depth=0):
        if following is not None:
            _take(following, word, macros)
            following = None
        elif word in (*_DEFINE, *_UNDEFINE, *_NOT_OURS):
            following = word
        elif word.startswith("-Wp,"):
            for part in word.split(",")[1:]:
                _take(part[:2], part[2:], macros)
        else:
            for option in (*_DEFINE, *_UNDEFINE):
                if word.startswith(option):
                    _take(option, word[len(option) :].removeprefix("=" if option[1] == "-" else ""), macros)
    return tuple(macros.values())


def _take(option: str, macro: str, macros: dict[str, str]) -> None:
    name = re.split(r"[=(]", macro, maxsplit=1)[0]
    if option in (*_DEFINE, *_UNDEFINE):
        macros.pop(name, None)
    if option in _DEFINE and name:
        macros[name] = macro


def _flags(env: Mapping[str, str], names: Iterable[str]) -> list[str]:
    return [word for name in names for word in _words(env.get(name, ""))]


def _expanded(words: Iterable[str], cwd: str, *, is_nvcc: bool, depth: int) -> Iterator[str]:
    """Words with those of files of options in their places."""
    is_file = False
    for word in words:
        paths: list[str] = []
        if is_file:
            paths, is_file = word.split(","), False
        elif is_nvcc and word in _FILES:
            is_file = True
        elif is_nvcc and word.startswith(tuple(f"{option}=" for option in _FILES)):
            paths = word.partition("=")[2].split(",")
        elif word.startswith("@") and len(word) > 1:
            paths = [word[1:]]
        else:
            yield word
        for path in paths if depth < _MAX_DEPTH else ():
            yield from _expanded(_words_of(os.path.join(cwd, path)), cwd, is_nvcc=is_nvcc, depth=depth + 1)


def _words_of(path: str) -> list[str]:
    try:
        if not os.path.isfile(path):  # a pipe would wait for ever
            return []
        with open(path, "rb") as file:
            return _words(file.read(_MAX_FILE_BYTES).decode("utf-8", "surrogateescape"))
    except (OSError, ValueError):
        return []


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation mark without its fellow
        return text.split()
