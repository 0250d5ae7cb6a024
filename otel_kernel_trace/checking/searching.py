"""Looks for forbidden messages in logs.

Texts are found in linear time. A regular expression of the user's may take for ever on a log that
a stranger wrote; it is therefore matched in a process of its own, which is ended when it takes too
long, and only against the beginning of each line.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from otel_kernel_trace.checking.context import Searched, Sighting

_SECONDS: Final = 10.0
_SECONDS_PER_CHARACTER: Final = 1e-6
_MAX_SHOWN: Final = 200
_WORKER: Final = Path(__file__).with_name("pattern_worker.py")


@dataclass(frozen=True, slots=True)
class Log:
    """A text that a compiler, a run or a builder wrote."""

    text: str
    file: str = ""
    """Below the tree's root; empty where no file has it."""


class Search:
    """Looks for the same messages in the logs of one task after another. Not thread-safe.

    A context manager: leaving it ends the process that matches patterns.

    Args:
        texts: parts of lines, in whatever case.
        patterns: regular expressions, valid ones.
        seconds: that a pattern has for the logs of a task; longer logs get more.
    """

    def __init__(self, texts: Sequence[str], patterns: Sequence[str], seconds: float = _SECONDS) -> None:
        self._texts = tuple(dict.fromkeys(texts))
        self._patterns = list(dict.fromkeys(patterns))
        self._seconds = seconds
        self._given_up: list[str] = []
        self._worker: subprocess.Popen[bytes] | None = None

    def search(self, logs: Sequence[Log], unread: Sequence[str] = ()) -> Searched:
        """What is in the logs of a task; ``unread`` says which others could not be looked at."""
        sightings = [seen for text in self._texts if (seen := _sighting(text, logs)) is not None]
        if any(log.text for log in logs):
            sightings += self._matches(logs)
        why = [f"pattern {each!r} took too long on a log and was given up" for each in self._given_up]
        return Searched(tuple(sightings), len(logs), (*unread, *why))

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _matches(self, logs: Sequence[Log]) -> Iterator[Sighting]:
        for pattern in list(self._patterns):
            answer = self._answer(pattern, logs)
            if answer is None:
                self._stop()
                self._patterns.remove(pattern)
                self._given_up.append(pattern)
                continue
            times, log, line = answer
            if times:
                text = logs[log].text.split("\n")[line - 1]
                yield Sighting(pattern, True, times, _shown(text), logs[log].file, line)

    def _answer(self, pattern: str, logs: Sequence[Log]) -> tuple[int, int, int] | None:
        """How many lines match, and log and line of the first; None where it took too long."""
        asked = json.dumps({"pattern": pattern, "logs": [log.text for log in logs]})
        try:
            worker = self._running()
            if worker.stdin is None or worker.stdout is None:
                return None
            worker.stdin.write(asked.encode("ascii") + b"\n")
            worker.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(worker.stdout, selectors.EVENT_READ)
                if not selector.select(self._seconds + _SECONDS_PER_CHARACTER * len(asked)):
                    return None
            times, log, line = json.loads(worker.stdout.readline())
        except (OSError, ValueError):
            return None
        return times, log, line

    def _running(self) -> subprocess.Popen[bytes]:
        if self._worker is None:
            command = [sys.executable, "-I", "-S", str(_WORKER)]
            self._worker = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._worker

    def _stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            with contextlib.suppress(OSError):
                worker.communicate()  # closes the pipes, and waits


def _sighting(text: str, logs: Sequence[Log]) -> Sighting | None:
    wanted = text.lower()
    times, first = 0, None
    for log in logs:
        if wanted not in log.text.lower():
            continue
        for number, line in enumerate(log.text.split("\n"), 1):
            if wanted in line.lower():
                times += 1
                first = first or (log, number, line)
    if first is None:
        return None
    log, number, line = first
    return Sighting(text, False, times, _shown(line), log.file, number)


def _shown(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _MAX_SHOWN else line[: _MAX_SHOWN - 1] + "…"
