"""The same trouble in another run, in one word: what stays of a message when what varies is taken out."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LONGEST: Final = 240
"""Characters of a signature's message."""

_QUOTES: Final = str.maketrans({"‘": "'", "’": "'", "“": "'", "”": "'", "`": "'", '"': "'", "´": "'"})
_BETWEEN_WORDS: Final = re.compile(r"([\s'(),;=<>\[\]{}]+)")
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]+|(?<!\w)[0-9a-f]{12,}(?!\w)")
# No assertion at the end: what has begun to match always matches, so that nothing is looked at twice.
_NUMBER: Final = re.compile(r"(?<![\w])\d[\d.,]*(?:[eE][+-]?\d+)?")
_TEMPORARY: Final = ("tmp", "cc", "torchinductor_")


@lru_cache(maxsize=4096)
def signature(tool: str, category: str, message: str) -> str:
    """Tool, category and message without quotes' shapes, addresses, folders and free-standing numbers.

    Digits that are part of a name stay: ``conv2d`` is another name than ``conv3d``.
    """
    text = message[: 4 * LONGEST].translate(_QUOTES)
    if "/" in text or "\\" in text:
        text = "".join(_without_folder(word) for word in _BETWEEN_WORDS.split(text))
    text = _NUMBER.sub("#", _ADDRESS.sub("#", text))
    return f"{tool}:{category}:{' '.join(text.split())[:LONGEST]}"


def _without_folder(word: str) -> str:
    if "/" not in word and "\\" not in word:
        return word
    folder, separator, name = word.replace("\\", "/").rpartition("/")
    if (not folder and not name) or not separator:
        return word  # a division
    return "<file>" if name.startswith(_TEMPORARY) and folder else name
