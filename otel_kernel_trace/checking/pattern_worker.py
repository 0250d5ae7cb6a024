"""Matches regular expressions in a process that may be killed; ``searching`` runs this file.

A line of stdin is a JSON object of ``pattern`` and ``logs``; a line of stdout says how many lines
match, and log (from 0) and line (from 1) of the first.
"""

import json
import re
import sys

MAX_LINE_CHARS = 2000
"""Of a longer line the rest is not looked at."""


def main() -> None:
    """Answer what stdin asks."""
    for line in sys.stdin:
        print(json.dumps(_answer(**json.loads(line))), flush=True)


def _answer(pattern: str, logs: list[str]) -> list[int]:
    matches = re.compile(pattern).search
    found = [
        (at, number)
        for at, log in enumerate(logs)
        for number, line in enumerate(log.split("\n"), 1)
        if matches(line[:MAX_LINE_CHARS])
    ]
    return [len(found), *(found[0] if found else (0, 0))]


if __name__ == "__main__":
    main()
