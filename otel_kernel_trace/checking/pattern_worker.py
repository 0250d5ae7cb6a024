"""Matches a regular expression in a process that may be killed; ``searching`` runs this file.

From stdin it takes a JSON object of ``pattern`` and ``logs``; to stdout goes how many lines match,
and log (from 0) and line (from 1) of the first.
"""

import json
import re
import sys

MAX_LINE_CHARS = 2000
"""Of a longer line the rest is not looked at."""


def main() -> None:
    """Answer what stdin asks."""
    asked = json.load(sys.stdin)
    matches = re.compile(asked["pattern"]).search
    found = [
        (at, number)
        for at, log in enumerate(asked["logs"])
        for number, line in enumerate(log.split("\n"), 1)
        if matches(line[:MAX_LINE_CHARS])
    ]
    print(json.dumps([len(found), *(found[0] if found else (0, 0))]))


if __name__ == "__main__":
    main()
