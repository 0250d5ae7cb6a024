"""The user's own patterns: taken where it is certain that they take linear time, refused elsewhere.

Python's ``re`` goes back and tries again, which may take longer than the program runs.
A pattern is safe with it if no match is long and there are few ways to come to one; both
are read from the parsed pattern. Any other is left to RE2, which never goes back:
https://github.com/google/re2/wiki/WhyRE2 .
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from importlib import import_module
from typing import Any, Final

from otel_kernel_trace.redaction.patterns import Match, Pattern, Rule

# The parser of patterns has no public name, and had another before Python 3.11.
_before = "sre_" if sys.version_info < (3, 11) else "re._"
parser: Any = import_module(f"{_before}{'parse' if sys.version_info < (3, 11) else 'parser'}")
ops: Any = import_module(f"{_before}constants")

_NAME: Final = re.compile("[a-z][a-z0-9_]{0,39}")
_MAX_STEPS: Final = 500
"""Comparisons that a match may take from one place of a text, at worst."""
_MAX_WORK: Final = 10**9
"""Characters that RE2 may look at for one text, at worst; it takes a second or two."""
_LEAST_MATCHES: Final = 100
_INSTALL: Final = "install the extra, otel-kernel-trace[redaction], to have it matched by RE2"


def rule_of_pattern(name: object, expression: object) -> Rule:
    """A rule of a pattern of the user's.

    Raises:
        ValueError: the name can't be in a marker, or the pattern can't be used.
        TypeError: one is no string.
    """
    if not isinstance(name, str) or not isinstance(expression, str):
        raise TypeError(f"a pattern is a string under the name of its kind, not {name!r}: {expression!r}")
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"a kind is called in up to 40 letters a-z, digits and _, not {name[:100]!r}")
    try:
        compiled = re.compile(expression)
        parsed = parser.parse(expression)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"the pattern {name!r} is no regular expression: {error}") from None
    width, _ = parsed.getwidth()
    if width == 0:
        raise ValueError(f"the pattern {name!r} matches where nothing is")
    triggers = _beginning(parsed, compiled.flags)
    try:
        _steps(parsed)
    except _UnboundedError:
        return Rule(name, triggers, _linear(name, expression))
    return Rule(name, triggers, compiled)


def rule_of_words(kind: str, words: Collection[str], *, is_folder: bool = False) -> Rule:
    """A rule of texts that are secret as they stand.

    Args:
        kind: what the marker calls them.
        words: the texts.
        is_folder: whether each is a path, and no part of a longer name.

    Raises:
        ValueError: a word is empty.
        TypeError: one is no string.
    """
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"a word is a string, not {word!r}")
        if not word.strip():
            raise ValueError("a word can't be empty")
    longest_first = sorted(set(words), key=len, reverse=True)
    if is_folder:
        [folder] = longest_first
        escaped = re.escape(folder)
        return Rule(kind, (folder,), re.compile(rf"{escaped}(?<![\w.-]{escaped})(?![\w-])"))
    return Rule(kind, tuple(longest_first), re.compile("|".join(map(re.escape, longest_first))))


def _linear(name: str, expression: str) -> Pattern:
    try:
        import re2
    except ImportError:
        raise ValueError(
            f"the pattern {name!r} may take very long with some text, as what it finds has no bound: write "
            f"{{1,100}} for + or *, and no repetition inside another; or {_INSTALL}"
        ) from None
    options = re2.Options()
    options.log_errors = False
    try:
        return _Re2(re2.compile(expression, options))
    except re2.error as error:
        raise ValueError(f"the pattern {name!r} can't be matched in linear time: {error}") from None


class _Re2:
    """An RE2 pattern, for any text.

    A search takes linear time, but to go through all matches may take one for each of them.
    """

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self.groupindex = pattern.groupindex

    def finditer(self, string: str, /) -> Iterator[Match]:
        most = max(_LEAST_MATCHES, _MAX_WORK // (len(string) + 1))
        for found in self._pattern.finditer(_SURROGATE.sub("\ufffd", string)):  # RE2 has UTF-8 alone
            most -= 1
            if most < 0:
                raise OverflowError("a pattern matches in too many places of a long text")
            yield found


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class _UnboundedError(Exception):
    """A match may be of any length, or there are too many ways to come to one."""


def _steps(items: Iterable[tuple[object, Any]]) -> tuple[int, int]:
    """In how many ways a match can be come to from one place, and what they cost together.

    Raises:
        _UnboundedError: too many, or nobody knows.
    """
    ways, steps = 1, 0
    for item in items:
        more_ways, more_steps = _steps_of(*item)
        steps += ways * more_steps
        ways *= more_ways
        if max(ways, steps) > _MAX_STEPS:
            raise _UnboundedError
    return ways, steps


def _steps_of(op: object, given: Any) -> tuple[int, int]:
    if op in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN, ops.AT):
        return 1, 1
    if op is ops.SUBPATTERN:
        return _steps(given[-1])
    if op is ops.BRANCH:
        several = [_steps(branch) for branch in given[1]]
        return sum(ways for ways, _ in several), sum(steps for _, steps in several)
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return 1, _steps(given[1])[1]
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT) and given[1] <= _MAX_STEPS:
        least, most, repeated = given
        ways, steps = _steps(repeated)
        if ways == 1:
            return most - least + 1, max(most * steps, 1)
        if most * math.log2(ways) > _MAX_STEPS.bit_length():
            raise _UnboundedError
        return sum(ways**times for times in range(least, most + 1)), steps * sum(
            ways**times for times in range(most)
        )
    raise _UnboundedError  # groups that are referred to, repetition without a bound


def _beginning(items: Iterable[tuple[object, Any]], flags: int) -> tuple[str, ...]:
    """The literal with which all matches begin, as a rule's triggers."""
    text = ""
    for op, given in items:
        if op is not ops.LITERAL:
            break
        text += chr(given)
    return (text,) if len(text) > 1 and not flags & re.IGNORECASE else ()
