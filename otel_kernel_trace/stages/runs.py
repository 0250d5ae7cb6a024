"""Commands as stages: what they were asked, wrote and used, and what their output says."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from opentelemetry.trace import Status, StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.diagnostics import Category, Diagnostic, parse_diagnostics
from otel_kernel_trace.diagnostics.extent import ends_of
from otel_kernel_trace.diagnostics.telling import tell, tell_resources
from otel_kernel_trace.levels import STAGE, kept
from otel_kernel_trace.live import set_attributes
from otel_kernel_trace.resources import KernelResources, parse_resources
from otel_kernel_trace.stages.execution import Ended, Output, run_command
from otel_kernel_trace.stages.macros import macros_in
from otel_kernel_trace.stages.stage import Place, Stage, stage_at

_logger = logging.getLogger("otel_kernel_trace")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Run:
    """A command that has ended."""

    args: tuple[str, ...]
    returncode: int | None
    """Its exit status, or the negative number of the signal that ended it, as of ``subprocess``. None where
    that is not known: another part of the program waited for it, or it could not be killed."""
    signal: str
    """Name of the signal that ended it, as ``SIGSEGV``; empty for none."""
    stdout: str
    stderr: str
    """What it wrote; bytes that are no UTF-8 are lone surrogates (``surrogateescape``). Of more than 32 MiB
    there is the first half and the last, and between them a line that says how much is cut."""
    duration: float
    """Seconds."""
    is_timed_out: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()
    """What its output says is wrong, stderr first; and that it timed out or crashed, where that is so. Of an
    output of more than a million characters the beginning and the end are looked at."""
    resources: tuple[KernelResources, ...] = ()
    """Of the entry functions that it assembled."""
    macros: tuple[str, ...] = ()
    """Those in force, without ``-D``."""


def run(
    place: Place | None,
    args: Sequence[str | bytes | os.PathLike[str]],
    *,
    name: str | None = None,
    timeout: float | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    input: str | bytes = b"",  # noqa: A002 - as of subprocess.run
) -> Run:
    """Run a command as a stage, and wait for it. An exit status that is not 0 makes the span an error.

    It has no terminal, and reads ``input`` and nothing else. A timeout kills it and all that it
    started, and is told in what comes back, not raised. It leaves no process behind: of
    those that it started and that outlive it, all but daemons are killed. In asyncio:
    ``await asyncio.to_thread(tracer.run, [...])``.

    Args:
        place: of the stage; None records nothing.
        args, name, timeout, cwd, env, input: as of :meth:`~otel_kernel_trace.KernelTracer.run`.

    Raises:
        OSError, TypeError, ValueError: as told there.
    """
    if isinstance(args, (str, bytes)):
        raise TypeError(f"args is a list of words, as ['nvcc', '-c', 'a.cu'], not {args!r}")
    words = tuple(os.fsdecode(word) for word in args)
    if not words:
        raise ValueError("args is empty: there is no program to run")
    content = _bytes(input) if isinstance(input, str) else input
    macros = macros_in(words, os.environ if env is None else env, cwd)
    given: dict[str, AttributeValue] = {attributes.PROCESS_COMMAND_ARGS: [_sendable(word) for word in words]}
    if macros:
        given[attributes.STAGE_MACROS] = [_sendable(macro) for macro in macros]
    with stage_at(place, PurePath(words[0]).name if name is None else name, given) as stage:
        if content:
            stage.input(content)
        ended = run_command(words, timeout=timeout, cwd=cwd, env=env, content=content)
        stage.stop()
        done = _run_of(words, macros, ended, timeout)
        _record(stage, done, ended)
    return done


def _run_of(words: tuple[str, ...], macros: tuple[str, ...], ended: Ended, timeout: float | None) -> Run:
    signal_name = _signal_of(ended.returncode)
    stdout, stderr = (_text(output) for output in (ended.stdout, ended.stderr))
    diagnostics = [*_diagnostics_in(stderr), *_diagnostics_in(stdout)]
    program = PurePath(words[0]).name
    if ended.is_timed_out:
        diagnostics.append(_ended_by(program, "timeout", f"timed out after {timeout} s"))
    elif signal_name and not any(diagnostic.category == "crash" for diagnostic in diagnostics):
        diagnostics.append(_ended_by(program, "crash", f"killed by {signal_name}"))
    return Run(
        words,
        ended.returncode,
        signal_name,
        stdout,
        stderr,
        ended.duration,
        ended.is_timed_out,
        tuple(diagnostics),
        (*_resources_in(stderr), *_resources_in(stdout)),
        macros,
    )


def _record(stage: Stage, done: Run, ended: Ended) -> None:
    span = stage.span
    if not span.is_recording():
        return
    given: dict[str, AttributeValue | None] = {
        attributes.PROCESS_EXIT_CODE: done.returncode if (done.returncode or 0) >= 0 else None,
        attributes.STAGE_SIGNAL: done.signal or None,
        attributes.STAGE_STDOUT: _sendable(done.stdout) or None,
        attributes.STAGE_STDERR: _sendable(done.stderr) or None,
        attributes.INCOMPLETE: _cut(ended) or None,
    }
    failed = done.is_timed_out or done.returncode != 0
    told = {name: value for name, value in given.items() if value is not None}
    set_attributes(span, kept(STAGE, stage.level, told, failed=failed))
    # The command's own, and not all that was waited for meanwhile, by other threads too.
    stage.noted[attributes.STAGE_CHILDREN_CPU_TIME] = ended.cpu_time
    stage.noted[attributes.STAGE_PEAK_MEMORY] = ended.peak_memory
    tell(span, done.diagnostics)
    tell_resources(span, done.resources)
    if failed:
        span.set_status(Status(StatusCode.ERROR, _why(done)))


def _why(done: Run) -> str:
    if done.is_timed_out or done.signal:
        return done.diagnostics[-1].message if done.is_timed_out else f"killed by {done.signal}"
    return "how it ended is not known" if done.returncode is None else f"exit status {done.returncode}"


def _cut(ended: Ended) -> str:
    cut = (("stdout", ended.stdout.cut), ("stderr", ended.stderr.cut))
    return "\n".join(f"{name}: {size} bytes of its middle were not kept" for name, size in cut if size)


def _signal_of(returncode: int | None) -> str:
    if returncode is None or returncode >= 0:
        return ""
    try:
        return signal.Signals(-returncode).name
    except ValueError:  # of the real-time ones
        return f"signal {-returncode}"


def _diagnostics_in(text: str) -> tuple[Diagnostic, ...]:
    try:
        return parse_diagnostics(ends_of(text))
    except Exception:
        _logger.exception("what a command wrote is kept without its diagnostics")
        return ()


def _resources_in(text: str) -> tuple[KernelResources, ...]:
    try:
        return parse_resources(ends_of(text))
    except Exception:
        _logger.exception("what a command wrote is kept without its resources")
        return ()


def _ended_by(program: str, category: Category, message: str) -> Diagnostic:
    return Diagnostic(program, "error", category, message, signature=_NUMBER.sub("N", message))


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # halves of characters that stand for no byte
        return text.encode("utf-8", "backslashreplace")


def _text(output: Output) -> str:
    return output.content.decode("utf-8", "surrogateescape")


def _sendable(text: str) -> str:
    """A text as OTLP can send it: bytes that are no UTF-8 as escapes, ``\\xff``."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
