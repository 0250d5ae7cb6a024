"""Pieces of secrets in what was made of a text that had them, by which no rule knows them.

A diagnostic's signature has ``#`` for numbers, a message ends after so many characters, and a
builder's line may be one of a private key's. Where the secret is known, its pieces are found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from otel_kernel_trace import attributes
from otel_kernel_trace.redaction.redactor import marker

_PIECE: Final = 8
"""Characters of a secret that are too many to be there by chance; a shorter one is looked for whole."""
_LEAST: Final = 4
_MAX_CHARS: Final = 262_144
"""Of all secrets of a span."""
_OF_JSON: Final = '"\\'

_LONGEST: Final = 2000
"""Characters to which what a diagnostic says is cut."""

_DERIVED: Final = (f"{attributes.DIAGNOSTIC}.", attributes.BUILDER_PREFIX)
_DERIVED_JSON: Final = (attributes.RESOURCES, attributes.SUSPICIONS, attributes.LAYER_TIMES)


def is_derived(name: str) -> bool:
    """Whether an attribute was made of other texts of its span."""
    return (name.startswith(_DERIVED) and name != attributes.BUILDER_LOG) or name in _DERIVED_JSON


def may_be_cut(name: str, text: str) -> bool:
    """Whether what a diagnostic says may end before the text of which it was made."""
    return name == attributes.DIAGNOSTIC_SIGNATURE or (name.startswith(_DERIVED[0]) and len(text) >= _LONGEST)


class Echoes:
    """Finds pieces of secrets. Takes linear time; JSON stays JSON.

    Args:
        secrets: kinds by what was taken out of other texts.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._pieces: dict[int, dict[str, str]] = {}
        left = _MAX_CHARS
        for secret, kind in secrets.items():
            if len(secret) < _LEAST or "[redacted:" in secret:
                continue
            secret, left = secret[:left], left - len(secret)
            size = min(len(secret), _PIECE)
            for at in range(len(secret) - size + 1):
                piece = secret[at : at + size]
                if not any(char in piece for char in _OF_JSON):
                    self._pieces.setdefault(size, {})[piece] = kind
            if left <= 0:
                break

    def taken_out(self, text: str) -> tuple[str, dict[str, int]]:
        """A text with markers in place of pieces, and how many, by kind."""
        found = sorted(
            (at, at + size, kind)
            for size, pieces in self._pieces.items()
            for at in range(len(text) - size + 1)
            if (kind := pieces.get(text[at : at + size])) is not None
        )
        counts: dict[str, int] = {}
        kept: list[str] = []
        done = 0
        for start, end, kind in found:
            if start >= done or not kept:
                # The n of a line break in JSON belongs to its backslash.
                start += start > 0 and text[start - 1] == "\\"
                kept += (text[done:start], marker(kind))
                counts[kind] = counts.get(kind, 0) + 1
            done = max(done, end)
        return "".join((*kept, text[done:])), counts
