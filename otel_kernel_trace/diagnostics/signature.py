"""The same trouble in another run, in one word: what stays of a message when what varies is taken out."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from otel_kernel_trace.diagnostics.wording import unquoted

LONGEST: Final = 240
"""Characters of a signature's message."""

_BETWEEN_WORDS: Final = re.compile(r"([\s'(),;=<>\[\]{}]+)")
_VARYING: Final = re.compile(
    r"(?<!\w)(?:0x[0-9a-fA-F]+|[0-9a-f]{12,}(?!\w)|\d+(?:[.,]\d+)*\.?(?:[eE][+-]?\d+)?)"
)
"""Addresses, hashes and numbers. What has begun as a number always matches, so nothing is looked at twice."""
_TEMPORARY: Final = ("tmp", "cc", "torchinductor_")


@lru_cache(maxsize=4096)
def signature(tool: str, category: str, message: str) -> str:
    """Tool, category and message without quotes' shapes, addresses, folders and free-standing numbers.

    Digits that are part of a name stay: ``conv2d`` is another name than ``conv3d``.
    """
    text = unquoted(message[: 4 * LONGEST])
    if "/" in text or "\\" in text:
        text = "".join(_without_folder(word) for word in _BETWEEN_WORDS.split(text))
    text = _VARYING.sub("#", text)
    return f"{tool}:{category}:{' '.join(text.split())[:LONGEST]}"


def _without_folder(word: str) -> str:
    if "/" not in word and "\\" not in word:
        return word
    folder, separator, name = word.replace("\\", "/").rpartition("/")
    if not separator or not (folder or name):
        return word  # a division
    return "<file>" if name.startswith(_TEMPORARY) and folder else name
