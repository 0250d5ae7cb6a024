"""What the words of an error tell, whichever compiler or library uses them: its category and the name it is about."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from otel_kernel_trace.diagnostics.model import Category

_QUOTES: Final = str.maketrans({"‘": "'", "’": "'", "“": "'", "”": "'", "`": "'", '"': "'", "´": "'"})

_BY_EXCEPTION: Final[dict[str, Category]] = {
    "NameError": "undefined_name",
    "UnboundLocalError": "undefined_name",
    "AttributeError": "undefined_name",
    "SyntaxError": "syntax",
    "IndentationError": "syntax",
    "TabError": "syntax",
    "JSONDecodeError": "syntax",
    "TypeError": "type",
    "ImportError": "environment",
    "ModuleNotFoundError": "environment",
    "FileNotFoundError": "environment",
    "PermissionError": "environment",
    "NotADirectoryError": "environment",
    "IsADirectoryError": "environment",
    "FileExistsError": "environment",
    "OSError": "environment",
    "ConnectionError": "environment",
    "ConnectionRefusedError": "environment",
    "MemoryError": "out_of_memory",
    "OutOfMemoryError": "out_of_memory",
    "TimeoutError": "timeout",
    "TimeoutExpired": "timeout",
}

# In this order: the first that fits is taken. Lower case.
_BY_WORDS: Final[tuple[tuple[Category, tuple[str, ...]], ...]] = (
    ("out_of_memory", ("out of memory", "unable to allocate", "memory exhausted", "std::bad_alloc")),
    (
        "resource",
        (
            "too much shared data",
            "uses too much",
            "out of resource",
            "ub overflow",
            "cbuf overflow",
            "overflow, requires",
            "too many resources requested",
            "insufficient memory",
            "insuficient memory",
            "parameter space overflowed",
            "exceeds the limit",
            "exceeds the maximum",
            "exceeds the amount",
            "registers are required",
            "not enough registers",
        ),
    ),
    (
        "undefined_name",
        (
            "is undefined",
            "was not declared",
            "has not been declared",
            "undeclared",
            "undefined reference",
            "undefined symbol",
            "undefined variable",
            "undefined name",
            "is not defined",
            "has no member",
            "no member named",
            "has no attribute",
            "has no field",
            "unknown attribute",
            "unknown type name",
            "unknown symbol",
            "unknown modifier",
            "unresolved",
            "does not name a type",
            "is not a member of",
            "not a name of any known instruction",
            "referenced before assignment",
            "cannot access local variable",
            "no template named",
            "no type named",
            "not found in namespace",
            "implicit declaration",
        ),
    ),
    (
        "environment",
        (
            "no such file or directory",
            "no such file",
            "file not found",
            "cannot open source file",
            "cannot open file",
            "could not open",
            "can't open file",
            "cannot find -l",
            "unable to find library",
            "no module named",
            "cannot import name",
            "unsupported gpu architecture",
            "unsupported gnu version",
            "unknown option",
            "unrecognized command",
            "unknown argument",
            "command not found",
            "permission denied",
            "cannot open shared object",
            "not supported on .target",
            "requires .target",
            "is not supported on target",
            "no kernel image is available",
            "driver version is insufficient",
            "no cuda-capable device",
            "invalid device ordinal",
            "no space left on device",
            "requires ptx isa",
            "unsupported .version",
        ),
    ),
    ("timeout", ("timed out", "time limit", "timeout")),
    (
        "shape",
        (
            "power of 2",
            "power of two",
            "shape",
            "broadcast",
            "dimension",
            "size mismatch",
            "sizes of tensors",
            "size of tensor",
            "out of bounds for axis",
            "incompatible sizes",
            "rank mismatch",
            "same rank",
        ),
    ),
    (
        "syntax",
        (
            "syntax error",
            "invalid syntax",
            "parse error",
            "parsing error",
            "unterminated",
            "missing terminating",
            "stray '",
            "unexpected token",
            "unexpected indent",
            "unbalanced",
            "extraneous",
            "expected a ",
            "expected an ",
            "expected '",
            "expected either",
            "expected unqualified-id",
            "expected identifier",
            "expected expression",
            "expected primary-expression",
            "expected declaration",
            "expected initializer",
            "expected statement",
            "expected type-specifier",
            "expected function body",
            "expected constructor",
            "expected body",
            "was never closed",
            "unmatched '",
            "missing closing quote",
            "does not match opening",
        ),
    ),
    (
        "type",
        (
            "invalid conversion",
            "conversion from",
            "cannot convert",
            "could not convert",
            "cannot be converted",
            "cannot initialize",
            "cannot be used to initialize",
            "cannot be assigned to",
            "no matching",
            "no match for",
            "no operator",
            "no instance of",
            "no suitable",
            "no viable",
            "no known conversion",
            "incompatible type",
            "incompatible with",
            "incompatible pointer",
            "incompatible operand",
            "invalid operands",
            "invalid argument type",
            "invalid type",
            "unsupported type",
            "too few arguments",
            "too many arguments",
            "argument of type",
            "must have",
            "type mismatch",
            "mismatched types",
            "wrong type",
            "operand type",
            "more than one operator",
            "is ambiguous",
            "type name is not allowed",
            "dtype",
            "invalid use of",
            "cannot determine numba type",
            "no implementation of function",
            "cannot unify",
            "discards qualifiers",
            "qualifiers",
            "makes integer from pointer",
            "makes pointer from integer",
            "does not match",
            "not assignable",
            "non-const lvalue",
            "cannot bind",
        ),
    ),
    (
        "crash",
        (
            "illegal memory access",
            "misaligned address",
            "device-side assert",
            "illegal instruction",
            "unspecified launch failure",
            "invalid program counter",
            "hardware stack error",
            "segmentation fault",
            "segmentation violation",
            "died due to signal",
            "internal compiler error",
            "internal error",
            "killed signal",
            "core dumped",
            "stack dump",
        ),
    ),
)

_BY_WORD: Final[dict[str, list[tuple[int, str, Category]]]] = {}
"""The same by the longest word of each phrase, which is quickly looked up; with the phrase and its place."""
_WORD: Final = re.compile(r"[a-z0-9_]+")
for _place, (_category, _phrases) in enumerate(_BY_WORDS):
    for _phrase in _phrases:
        _BY_WORD.setdefault(max(_WORD.findall(_phrase), key=len), []).append((_place, _phrase, _category))

_OWNED: Final = ("has no member ", "no attribute ", "has no field ", "has no member named ", "no member named ")
_NAMING: Final = frozenset(
    (
        "identifier variable operator parameter function named attribute symbol macro label modifier field member module"
        " template name global method architecture keyword instruction: node to of for constructor"
    ).split()
)
"""Words before a quoted name that say that it is one, and no type."""
_TO_OF_FOR: Final = {
    "to": ("reference to ", "call to "),
    "of": ("redefinition of ", "redeclaration of ", "declaration of ", "definition of ", "macro expansion of "),
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
_MISSING: Final = re.compile(r"([^\s:'][^:']{0,300}): No such file or directory")
_FILE: Final = ("source file ", "can't open file ", "or directory: ")
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
    known = _BY_EXCEPTION.get(code.rpartition(".")[2])
    if said in ("undefined_name", "out_of_memory", "shape", "resource") and known in (None, "type", "environment"):
        return said
    return known or said


def _said(message: str) -> Category:
    words = unquoted(message).lower()
    best: tuple[int, str, Category] = (len(_BY_WORDS), "", "other")
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
    """The name that a message is about: undefined, unused, an operator, a missing file. None where it names types."""
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
    bare = _BARE.match(text) or _MISSING.match(text)
    return bare.group(1) if bare is not None else None


def _names(before: str) -> bool:
    """Whether the words before a quoted one say that it is a name."""
    if not before.endswith(" "):
        return False
    word = before[:-1].rpartition(" ")[2]
    return word in _NAMING and before.endswith(_TO_OF_FOR.get(word, ""))


def _bare_name(quoted: str) -> str:
    """``add(int, int)`` is ``add``; ``operator+`` stays."""
    found = _NAME.match(quoted)
    return found.group() if found is not None else quoted
