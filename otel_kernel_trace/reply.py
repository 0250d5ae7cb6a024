"""From a model's reply to the code and the comment in it.

Agents are asked to answer with a JSON object of two strings, ``code`` and
``description``. Models wrap it in prose or a Markdown fence, try twice, or stop
in the middle. :func:`parse` finds the object wherever it stands.

The standard library's decoder reads the well-behaved reply, which is an object and
nothing else. It is not used to search: each failed attempt counts lines from the
start of the text, and nesting is bounded by the recursion limit, so hostile replies
would cost quadratic time. The scan below reads every character at most twice,
whatever the reply, and hands only single strings to :mod:`json`.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

# Line breaks in strings pass; a number of a million digits is not worth an exact int.
_DECODER = json.JSONDecoder(strict=False, parse_int=float)
_DECODER_MAX_CHARS = 1_000_000
"""Longer replies are scanned, because the decoder builds every value in memory."""

_MAX_DEPTH = 1_000_000
"""Nothing that a model means is nested deeper, and every level takes memory."""

_OBJECT = re.compile(r'\{[ \t\n\r]*"')
_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|NaN|-?Infinity")


class Answer(NamedTuple):
    """The two strings that agents are asked for."""

    code: str
    description: str


def parse(reply: str) -> Answer | None:
    """Code and comment in a model's reply; None where it has no such object.

    Of several objects that have the two string fields the last complete one counts
    (a model that corrects itself does so at the end), and of nested ones the outer.
    Line breaks inside strings are accepted, as models often forget to escape them.

    Time is linear in the length of the reply.
    """
    return _whole_answer(reply) or _last_answer(reply)


def document(reply: str) -> str:
    """The text for ``result.txt``: code and comment of ``reply``, or ``reply`` itself."""
    found = parse(reply)
    return reply if found is None else f"{found.code}\n\n\n'''\n{found.description}\n'''"


def _whole_answer(text: str) -> Answer | None:
    if not text.startswith("{") or len(text) > _DECODER_MAX_CHARS:
        return None
    try:
        fields = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return _answer_of(fields.get("code"), fields.get("description"))


def _answer_of(code: object, description: object) -> Answer | None:
    return Answer(code, description) if isinstance(code, str) and isinstance(description, str) else None


def _last_answer(text: str) -> Answer | None:
    found = None
    position = 0
    while (opening := _OBJECT.search(text, position)) is not None:
        scan = _scan(text, opening.start())
        found = scan.answer or found
        position = scan.resume
    return found


class _Scan(NamedTuple):
    answer: Answer | None
    """The last complete object with both fields that the scan passed."""
    resume: int
    """Where the search for the next object goes on."""


class _Open:
    """An object or array whose end has not come yet."""

    __slots__ = ("fields", "is_object", "key")

    def __init__(self, is_object: bool) -> None:
        self.is_object = is_object
        self.key = ""
        self.fields: dict[str, str] = {}

    def answer(self) -> Answer | None:
        return _answer_of(self.fields.get("code"), self.fields.get("description"))


# What may come next.
_KEY, _KEY_OR_END, _COLON, _VALUE, _VALUE_OR_END, _COMMA_OR_END = range(6)
_STRING_PLACES = (_KEY, _KEY_OR_END, _VALUE, _VALUE_OR_END)
_CLOSABLE = (_KEY_OR_END, _VALUE_OR_END, _COMMA_OR_END)


def _scan(text: str, start: int) -> _Scan:
    """Read the JSON object that opens at ``start`` up to its end or its first error."""
    stack = [_Open(is_object=True)]
    answer: Answer | None = None
    expect = _KEY_OR_END
    position = start + 1
    last_string = (position, position)

    while True:
        blank = _SPACE.match(text, position)
        position = blank.end() if blank else position
        char = text[position : position + 1]
        top = stack[-1]

        if char == '"' and expect in _STRING_PLACES:
            end = _string_end(text, position)
            value = None if end is None else _string_value(text[position:end])
            if end is None or value is None:
                break
            last_string = (position, end)
            position = end
            if expect <= _KEY_OR_END:
                top.key, expect = value, _COLON
            else:
                if top.is_object and top.key in ("code", "description"):
                    top.fields[top.key] = value
                expect = _COMMA_OR_END
        elif char == ":" and expect == _COLON:
            position, expect = position + 1, _VALUE
        elif char == "," and expect == _COMMA_OR_END:
            position, expect = position + 1, _KEY if top.is_object else _VALUE
        elif char == ("}" if top.is_object else "]") and expect in _CLOSABLE:
            position += 1
            stack.pop()
            answer = top.answer() or answer
            if not stack:
                return _Scan(answer, position)
            expect = _COMMA_OR_END
        elif _VALUE <= expect <= _VALUE_OR_END:
            # A value that is no string: one called "code" or "description" disqualifies an earlier one.
            top.fields.pop(top.key, None)
            if char in ("{", "[") and len(stack) < _MAX_DEPTH:
                position += 1
                stack.append(_Open(is_object=char == "{"))
                expect = _KEY_OR_END if char == "{" else _VALUE_OR_END
            elif scalar := _SCALAR.match(text, position):
                position, expect = scalar.end(), _COMMA_OR_END
            else:
                break
        else:
            break

    return _Scan(answer, _resume(text, start, last_string, position))


def _string_end(text: str, quote: int) -> int | None:
    """The position after the closing quote of the string that opens at ``quote``."""
    begin = quote + 1
    while (end := text.find('"', begin)) != -1:
        between = text[begin:end]
        if (len(between) - len(between.rstrip("\\"))) % 2 == 0:
            return end + 1
        begin = end + 1
    return None


def _string_value(token: str) -> str | None:
    if "\\" not in token:
        return token[1:-1]
    try:
        value = json.loads(token, strict=False)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _resume(text: str, start: int, last_string: tuple[int, int], error: int) -> int:
    """Where the next object may begin after an error.

    Objects that opened between ``start`` and ``error`` were read along with the
    outer one. Only one that opens inside the last string may have been missed: an
    unclosed quote makes the scan take ``… {"`` for the string's end.
    """
    begin, end = last_string
    brace = text.rfind("{", begin, end)
    if brace > start and _SPACE.fullmatch(text, brace + 1, end - 1):
        return brace
    return max(error, start + 1)
