"""From any name to one that every file system takes.

Op names, task ids and part names come from models and strangers. Each becomes a
file name component that is legal on Linux, macOS and Windows, cannot leave its
folder, and is never shared by two different names:

- A character that is not safe is percent-encoded (RFC 3986), as UTF-8; so is ``%``
  itself, and ``~``.
- ``~`` therefore marks what this package adds: the digest of a shortened name, the
  number of a repeated file, the empty name.

Ordinary names, Chinese ones included, stay as they are.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MAX_NAME_BYTES = 255
"""Longest file name that common file systems take, in bytes."""

_ORDINARY = re.compile(r"[A-Za-z0-9_]+(?:[.-]+[A-Za-z0-9_]+)*")
_UNSAFE = frozenset('%~/\\:*?"<>|')
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, invisible and bidirectional formatting, lone surrogates, line separators."""
_DEVICE = re.compile(r"(?i:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?=[ .]|$)")
"""Names that Windows keeps for devices, with any extension."""

_DIGEST_CHARS = 16
_CACHED_CHARS = 300


def safe_name(name: str, max_bytes: int = MAX_NAME_BYTES) -> str:
    """A component of at most ``max_bytes`` bytes that stands for ``name`` alone.

    A name too long for that keeps its beginning, followed by ``~`` and 64 bits of
    its SHA-256.
    """
    if len(name) <= _CACHED_CHARS:
        return _cached_safe_name(name, max_bytes)
    return _safe_name(name, max_bytes)


def _safe_name(name: str, max_bytes: int) -> str:
    if not name:
        return "~"
    # What is cut away needs no encoding: a name may be as long as a text.
    head = name[: max_bytes + 1]
    safe = head if _is_ordinary(head) else _encoded(head)
    if len(name) <= max_bytes and len(safe.encode()) <= max_bytes:
        return safe
    import hashlib  # rarely needed, and slow to load

    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{_head(safe, max_bytes - len(digest) - 1)}~{digest}"


_cached_safe_name = lru_cache(maxsize=512)(_safe_name)


def _is_ordinary(name: str) -> bool:
    return _ORDINARY.fullmatch(name) is not None and _DEVICE.match(name) is None


def _encoded(name: str) -> str:
    first, last = 0, len(name) - 1
    # A leading dot hides a file; Windows drops a final dot or space, so that two names would meet.
    return "".join(
        _percent(char)
        if _is_unsafe(char)
        or (index == first and (char == "." or _DEVICE.match(name)))
        or (index == last and char in ". ")
        else char
        for index, char in enumerate(name)
    )


def _is_unsafe(char: str) -> bool:
    return char in _UNSAFE or unicodedata.category(char) in _UNSAFE_CATEGORIES


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _head(safe: str, max_bytes: int) -> str:
    """The longest beginning of ``safe`` that fits and cuts no character and no escape in two."""
    head = safe.encode()[:max_bytes].decode(errors="ignore")
    return re.sub(r"%[0-9A-F]?$", "", head)
