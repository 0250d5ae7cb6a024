"""Rules of the user's own, from a file: TOML or JSON.

kinds = ["openai_key", "password"]    # of the built-in ones; left out: all
words = ["Project Nightingale"]

[patterns]
ticket = "KERN-[0-9]{4,8}"
"""

from __future__ import annotations

import importlib
import json
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from otel_kernel_trace.redaction.redactor import Redactor

_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Rules:
    """What a file asks for, unchecked."""

    patterns: dict[str, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    kinds: list[str] | None = None

    def redactor(self) -> Redactor:
        """What finds it.

        Raises:
            ValueError, TypeError: something in it can't be used.
        """
        return Redactor(self.patterns, words=self.words, kinds=self.kinds)

    def usable(self) -> Redactor:
        """What can be used of it, with all that is built in: rather too much is taken out than too little."""
        patterns = {name: each for name, each in self.patterns.items() if _is_usable(Redactor, {name: each})}
        words = [word for word in self.words if isinstance(word, str) and word.strip()]
        return Redactor(patterns, words=words)


def read_rules(path: str) -> Rules:
    """The rules in a file.

    Raises:
        ValueError: it can't be read, or is not of that form; the message says why.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError("it is no file")  # to read a pipe may take for ever
        with open(path, "rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"{path} is longer than {_MAX_BYTES} bytes")
        text = content.decode()
        given = json.loads(text) if path.endswith(".json") else _toml()(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"the rules of {path} can't be read: {error}") from None
    if not isinstance(given, dict) or not given.keys() <= {"patterns", "words", "kinds"}:
        raise ValueError(f"{path} may have patterns, words and kinds, and nothing else")
    patterns, words, kinds = given.get("patterns", {}), given.get("words", []), given.get("kinds")
    if (
        not isinstance(patterns, dict)
        or not isinstance(words, list)
        or not isinstance(kinds, (list, type(None)))
    ):
        raise ValueError(f"in {path}, patterns is a table, words and kinds are lists")
    return Rules(patterns, words, kinds)


def _toml() -> Callable[[str], object]:
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    try:
        return cast("Callable[[str], object]", importlib.import_module(name).loads)
    except ImportError:
        raise ValueError("for TOML, Python before 3.11 needs the package tomli; JSON needs nothing") from None


def _is_usable(make: Callable[[dict[str, str]], object], given: dict[str, str]) -> bool:
    try:
        make(given)
    except (ValueError, TypeError):
        return False
    return True
