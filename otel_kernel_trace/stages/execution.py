"""One command, from its start to the end of all that it started."""

from __future__ import annotations

import contextlib
import io
import math
import os
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final

from otel_kernel_trace.stages.memory import bytes_of, most_of_command, most_of_this_process

MAX_KEPT: Final = 32 * 1024 * 1024
"""Bytes of an output that are kept: its first half and its last. One may write without end."""

_LINGER: Final = 1.0
"""Seconds in which those that a command left behind may still write, before they are killed."""
_DYING: Final = 5.0
"""Seconds for a killed process to be gone. One that waits for a device that hangs may never be."""
_SOONEST, _LATEST = 0.005, 0.05
"""Seconds between looks at its memory."""
_ENOUGH_LOOKS: Final = 4
"""Of a command that ended sooner it may be that only its beginning was seen."""
_CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Output:
    """What a command wrote to one of its outputs."""

    content: bytes
    """As much as is kept."""
    cut: int = 0
    """Bytes that are missing in the middle; where that is, :attr:`content` says so in a line."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a command."""

    returncode: int | None
    """Its exit status, or the negative number of the signal that ended it. None where that is not known:
    another part of the program took note of its end, or it could not be killed."""
    stdout: Output
    stderr: Output
    duration: float
    """Seconds."""
    cpu_time: float | None
    """Seconds of processor time, of it and of what it waited for."""
    peak_memory: int | None
    """Bytes that the largest of its processes had at most."""
    is_timed_out: bool


def run_command(
    args: Sequence[str],
    *,
    timeout: float | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    content: bytes = b"",
) -> Ended:
    """Run a command and wait for its end.

    It has a session of its own, without a terminal. Nothing of it is left behind: when it ends,
    others of its process group may write for another second and are then killed; at the timeout, and where
    an exception strikes (Ctrl-C), all of them are at once. What leaves the group on purpose, as a
    daemon does, lives on.

    Args:
        args: the program and its arguments.
        timeout: seconds.
        cwd, env: as of ``subprocess.Popen``.
        content: what it can read from its input.

    Raises:
        OSError, ValueError, TypeError: it can't be started, as of ``subprocess.Popen``.
    """
    return _Command(args, timeout, cwd, env, content).run()


class _Kept:
    """The first and the last of what is written."""

    def __init__(self) -> None:
        self._first = bytearray()
        self._last: deque[bytes] = deque()
        self._size = 0
        self._cut = 0

    def add(self, chunk: bytes) -> None:
        room = MAX_KEPT // 2 - len(self._first)
        self._first += chunk[:room] if room > 0 else b""
        rest = chunk[max(room, 0) :]
        if rest:
            self._last.append(rest)
            self._size += len(rest)
        while self._size > MAX_KEPT // 2:
            gone = self._last.popleft()
            self._size -= len(gone)
            self._cut += len(gone)

    def output(self) -> Output:
        mark = b"\n[... %d bytes are cut here ...]\n" % self._cut if self._cut else b""
        return Output(b"".join((self._first, mark, *self._last)), self._cut)


class _Command:
    """A command that runs. Its file descriptors are open until :meth:`run` is done."""

    def __init__(
        self,
        args: Sequence[str],
        timeout: float | None,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        content: bytes,
    ) -> None:
        self._began = time.monotonic()
        self._deadline = math.inf if timeout is None else self._began + timeout
        self._left = memoryview(content)
        """What it has yet to read."""
        self._process = subprocess.Popen(
            args,
            stdin=subprocess.PIPE if content else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        self._pid = self._process.pid
        self._floor = most_of_this_process()
        self._seen = 0
        self._looks = 0
        self._is_timed_out = False

    def run(self) -> Ended:
        stdout, stderr = _Kept(), _Kept()
        try:
            with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
                if self._process.stdin is not None:
                    self._register(selector, stack, self._process.stdin, selectors.EVENT_WRITE, None)
                for pipe, kept in ((self._process.stdout, stdout), (self._process.stderr, stderr)):
                    assert pipe is not None
                    self._register(selector, stack, pipe, selectors.EVENT_READ, kept)
                self._attend(selector)
        finally:
            # Its number is its own until it is waited for, and so is that of its group.
            self._kill()
            returncode, usage = self._wait()
        return Ended(
            returncode,
            stdout.output(),
            stderr.output(),
            time.monotonic() - self._began,
            None if usage is None else usage.ru_utime + usage.ru_stime,
            self._peak_memory(0 if usage is None else bytes_of(usage)),
            self._is_timed_out,
        )

    def _register(
        self,
        selector: selectors.BaseSelector,
        stack: contextlib.ExitStack,
        pipe: IO[bytes],
        event: int,
        kept: _Kept | None,
    ) -> None:
        stack.callback(_close, pipe)
        os.set_blocking(pipe.fileno(), False)
        selector.register(pipe, event, kept)

    def _attend(self, selector: selectors.BaseSelector) -> None:
        """Pass on what goes in and out, until the end of the command and of what it left behind."""
        look_at, pause = 0.0, _SOONEST
        until = math.inf
        with _watched(self._pid, selector):
            while not self._has_ended():
                now = time.monotonic()
                if now >= until:
                    return  # it can't be killed
                if now >= self._deadline and not self._is_timed_out:
                    self._is_timed_out = True
                    self._kill()
                    until = now + _DYING
                if now >= look_at:
                    self._look()
                    pause = min(1.5 * pause, _LATEST)
                    look_at = now + pause
                self._pass_on(selector, min(look_at, until, max(self._deadline, now)) - now)
        until = time.monotonic() + _LINGER
        while _is_open(selector) and (now := time.monotonic()) < until:
            self._pass_on(selector, until - now)
        self._kill()
        self._pass_on(selector, 0)

    def _pass_on(self, selector: selectors.BaseSelector, wait: float) -> None:
        for key, _ in selector.select(wait):
            pipe, kept = key.fileobj, key.data
            if isinstance(pipe, int):
                continue  # the process itself: it has ended
            assert isinstance(pipe, io.IOBase)
            is_open = self._write(key.fd) if kept is None else _read(key.fd, kept)
            if not is_open:
                selector.unregister(pipe)
                _close(pipe)

    def _write(self, fd: int) -> bool:
        """Whether there is more to be written."""
        try:
            self._left = self._left[os.write(fd, self._left[:_CHUNK]) :]
        except BlockingIOError:
            return True
        except OSError:  # it reads no more
            return False
        return len(self._left) > 0

    def _look(self) -> None:
        seen = most_of_command(self._pid)
        self._looks += seen > 0
        self._seen = max(self._seen, seen)

    def _peak_memory(self, told: int) -> int | None:
        """The system's figure where it is the command's own, else what was seen if that was enough."""
        if told > self._floor:
            return told
        return self._seen if self._looks >= _ENOUGH_LOOKS else None

    def _has_ended(self) -> bool:
        try:
            return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # somebody else in the program took note of it
            return True

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)

    def _wait(self) -> tuple[int | None, resource.struct_rusage | None]:
        """How it ended, and what it used; it has been killed."""
        self._process.returncode = 0  # so that Popen does not wait for it, too
        until = time.monotonic() + _DYING
        while True:
            try:
                pid, status, usage = os.wait4(self._pid, os.WNOHANG)
            except ChildProcessError:
                return None, None
            if pid:
                return os.waitstatus_to_exitcode(status), usage
            if time.monotonic() >= until:
                # It hangs in a device's driver; whenever it dies, no zombie is left.
                threading.Thread(target=_wait_for, args=(self._pid,), daemon=True).start()
                return None, None
            time.sleep(_SOONEST)


@contextlib.contextmanager
def _watched(pid: int, selector: selectors.BaseSelector) -> Iterator[None]:
    """Have a selector wake when a process ends, where the system can tell."""
    try:
        watch = os.pidfd_open(pid)
    except (AttributeError, OSError):  # no Linux, an old one, or it was waited for
        yield
        return
    try:
        selector.register(watch, selectors.EVENT_READ)
        yield
        selector.unregister(watch)
    finally:
        os.close(watch)


def _is_open(selector: selectors.BaseSelector) -> bool:
    return any(key.data is not None for key in selector.get_map().values())


def _read(fd: int, kept: _Kept) -> bool:
    """Whether there is more to be read."""
    try:
        chunk = os.read(fd, _CHUNK)
    except BlockingIOError:
        return True
    kept.add(chunk)
    return len(chunk) > 0


def _close(pipe: io.IOBase | IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # what a closed pipe was yet to get
        pipe.close()


def _wait_for(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
