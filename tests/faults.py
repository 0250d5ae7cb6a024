"""Real faults for tests."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(where: Path, size: str = "256k") -> Iterator[Path]:
    """A file system of its own that is soon full."""
    where.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(where))
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """A file system that takes nothing, not even from root."""
    _mount("-o", "remount,ro", str(disk))
    try:
        yield
    finally:
        _mount("-o", "remount,rw", str(disk))


@contextmanager
def no_more_open_files() -> Iterator[None]:
    """A file table with no free place in it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fd = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(fd)


def python(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Another process that runs ``script``."""
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)])


def _mount(*arguments: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    subprocess.run(["mount", *arguments], check=True)


class forked:  # noqa: N801 - reads as a word
    """Runs the block twice, in a child and in its parent, which waits for the child's verdict."""

    def __enter__(self) -> forked:
        self._pid = os.fork()
        self.is_child = self._pid == 0
        return self

    def ends(self, as_expected: bool) -> None:
        os._exit(0 if as_expected else 1)

    def __exit__(self, *_: object) -> None:
        if self.is_child:
            os._exit(2)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                assert os.waitstatus_to_exitcode(status) == 0
                return
            time.sleep(0.01)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        pytest.fail("the child hangs")
