"""What the words of an error tell, whoever says them: its category and the name it is about."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from otel_kernel_trace.diagnostics.model import Category
from otel_kernel_trace.diagnostics.phrases import BY_EXCEPTION, BY_WORDS

_QUOTES: Final = str.maketrans({"‘": "'", "’": "'", "“": "'", "”": "'", "`": "'", '"': "'", "´": "'"})

_BY_WORD: Final[dict[str, list[tuple[int, str, Category]]]] = {}
"""Phrases with their place and category, by their longest word, which is quickly looked up."""
_WORD: Final = re.compile(r"[a-z0-9]+")
for _place, (_category, _phrases) in enumerate(BY_WORDS):
    for _phrase in _phrases:
        _BY_WORD.setdefault(max(_WORD.findall(_phrase), key=len), []).append((_place, _phrase, _category))

_OWNED: Final = (
    "has no member ",
    "no attribute ",
    "has no field ",
    "has no member named ",
    "no member named ",
)
_NAMING: Final = frozenset(
    {
        "identifier",
        "variable",
        "operator",
        "parameter",
        "function",
        "named",
        "attribute",
        "symbol",
        "macro",
        "label",
        "modifier",
        "field",
        "member",
        "module",
        "template",
        "name",
        "global",
        "method",
        "architecture",
        "keyword",
        "instruction:",
        "node",
        "to",
        "of",
        "for",
        "option",
        "constructor",
    }
)
"""Words before a quoted name that say that it is one, and no type."""
_TO_OF_FOR: Final = {
    "to": ("reference to ", "call to "),
    "of": (
        "redefinition of ",
        "redeclaration of ",
        "declaration of ",
        "definition of ",
        "macro expansion of ",
    ),
    "for": ("match for ", "declaration for "),
}
_LEADS: Final = tuple(
    f" {words}"
    for words in (
        "was not declared",
        "has not been",
        "undeclared",
        "does not name",
        "is not a",
        "is undefined",
        "is not defined",
        "defined but",
        "declared but",
        "set but",
        "is used",
        "may be used",
        "redeclared",
        "not supported",
    )
)
"""Words behind a quoted name, at the beginning of a message, that say that it is one."""
_BARE: Final = re.compile(r"(\w{1,200}) is not defined")
_SYMBOL: Final = re.compile(r"undefined symbol: ([^\s:,']{1,500})")
_MISSING: Final = re.compile(r"([^\s:'][^:']{0,300}): No such file or directory")
_FILE: Final = ("source file ", "can't open file ", "or directory: ")
_FUNCTION: Final = re.compile(r"[~\w:]+")
_NAME: Final = re.compile(r"operator ?[^\s\w(]{1,3}|[~\w:$.@+-]+|[^\s\w()]{1,3}$")


@lru_cache(maxsize=4096)
def category_of(message: str, code: str | None = None) -> Category:
    """The category of a message.

    Args:
        code: the exception's type, where it is one.
    """
    said = _said(message)
    if code is None:
        return said
    known = BY_EXCEPTION.get(code.rpartition(".")[2])
    if said in ("undefined_name", "out_of_memory", "shape", "resource") and known in (
        None,
        "type",
        "environment",
    ):
        return said
    return known or said


def _said(message: str) -> Category:
    words = unquoted(message).lower()
    best: tuple[int, str, Category] = (len(BY_WORDS), "", "other")
    for word in _WORD.findall(words):
        for candidate in _BY_WORD.get(word, ()):
            if candidate < best and candidate[1] in words:
                best = candidate
    return best[2]


def unquoted(text: str) -> str:
    """A text with every kind of quote as ``'``, whatever the locale."""
    if text.isascii():
        return text.replace("`", "'").replace('"', "'")
    return text.translate(_QUOTES)


def identifier_of(message: str) -> str | None:
    """The name that a message is about: undefined, unused, an operator, a missing file; None for types."""
    text = unquoted(message)
    pieces = text.split("'")
    found: str | None = None
    for before, quoted in zip(pieces[::2], pieces[1::2], strict=False):
        if quoted and before.endswith(_OWNED):
            return _bare_name(quoted)
        if found is None and quoted and (_names(before) or before.endswith(_FILE)):
            found = quoted if before.endswith(_FILE) else _bare_name(quoted)
    if found is not None:
        return found
    if len(pieces) > 2 and not pieces[0] and pieces[1]:
        if pieces[2].startswith(_LEADS):
            return _bare_name(pieces[1])
        if pieces[2].startswith(" file not found"):
            return pieces[1]
    bare = _BARE.match(text) or _MISSING.match(text) or _SYMBOL.search(text)
    return bare.group(1) if bare is not None else None


def _names(before: str) -> bool:
    """Whether the words before a quoted one say that it is a name."""
    if not before.endswith(" "):
        return False
    word = before[:-1].rpartition(" ")[2]
    return word in _NAMING and before.endswith(_TO_OF_FOR.get(word, ""))


def _bare_name(quoted: str) -> str:
    """``add(int, int)`` and ``void add(int)`` are ``add``; ``operator+`` stays."""
    returned, blank, name = quoted.partition("(")[0].rpartition(" ")
    if blank and "(" in quoted and returned != "operator" and _FUNCTION.fullmatch(name.lstrip("*&")):
        return name.lstrip("*&")
    found = _NAME.match(quoted)
    return found.group() if found is not None else quoted
