"""Where a command writes what it makes: to stdout, or to a file that is whole or not there."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

import click

_Result = TypeVar("_Result")


def written(output: Path | None, write: Callable[[BinaryIO], _Result]) -> _Result:
    """Have something written to stdout or a file; to a plain file as a whole or not at all."""
    try:
        if output is None or str(output) == "-":
            stdout = getattr(sys.stdout, "buffer", None)
            if stdout is None:
                raise click.ClickException("stdout is closed")
            result = write(stdout)
            stdout.flush()
            return result
        if output.is_symlink() or (output.exists() and not output.is_file()):
            with output.open("wb") as file:  # a pipe or a link stays what it is
                return write(file)
        return _written_whole(output, write)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nor may the flush at exit fail
        sys.exit(1)
    except OSError as error:
        raise click.ClickException(str(error)) from error


def _written_whole(output: Path, write: Callable[[BinaryIO], _Result]) -> _Result:
    """Under its name only when it is whole."""
    if not output.absolute().parent.is_dir():
        raise click.ClickException(f"there is no folder {output.parent} to write {output.name} to")
    fd, name = tempfile.mkstemp(dir=output.absolute().parent, prefix=".otel-kernel-trace.")
    try:
        with open(fd, "wb") as file:
            result = write(file)
        os.chmod(name, output.stat().st_mode & 0o777 if output.exists() else 0o666 & ~_umask())
        os.replace(name, output)
    except BaseException:
        os.unlink(name)
        raise
    return result


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
