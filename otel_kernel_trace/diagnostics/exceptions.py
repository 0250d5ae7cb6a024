"""How an exception is written in a log, in Python and where a C++ program ends with one."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_LINE: Final = re.compile(
    r"(?P<type>[A-Za-z_]\w{0,100}(?:\.[A-Za-z_<]\w{0,100}>?){0,12})(?::(?: (?P<message>.*))?)?$"
)
_WRAPPED: Final = re.compile(
    r"(?: {0,8}what\(\): +)?(?:(?P<type>[A-Za-z_][\w.]{0,200}(?:Error|Exception|Expired|Timeout"
    r"|Warning)): +)?(?P<message>.*)"
)
_CALLED: Final = re.compile(r"(?P<type>[A-Za-z_]\w{0,100})\((?P<quote>[\"'])(?P<message>.*)(?P=quote),?\)$")


class Said(NamedTuple):
    """An exception's type, where one is named, and the first line of its message."""

    type: str | None
    message: str


def exception_line(text: str) -> Said | None:
    """The last line of a traceback: ``package.Error: message``, ``Error:`` or ``Error``; else None."""
    found = _LINE.match(text)
    return Said(found["type"], (found["message"] or "").strip()) if found is not None else None


def said(text: str) -> Said:
    """A line that may or may not begin with the name of an exception, or with ``what():``."""
    found = _WRAPPED.match(text)
    return Said(found["type"], found["message"].strip()) if found is not None else Said(None, text)


def called(text: str) -> Said | None:
    """``NameError('x is not defined')``, as ``repr`` writes an exception; None for anything else."""
    found = _CALLED.match(text)
    if found is None:
        return None
    message = found["message"].replace("\\'", "'").replace('\\"', '"').replace("\\n", "\n")
    return Said(found["type"], message.partition("\n")[0])
