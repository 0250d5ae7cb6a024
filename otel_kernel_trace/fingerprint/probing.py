"""What compilers and driver of this machine say of themselves, for programs that ask for it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from typing import TypedDict

_SECONDS = 20


class Probed(TypedDict, total=False):
    """Arguments for :meth:`KernelTracer.describe`, as far as this machine tells."""

    toolchain: dict[str, str]
    device: str
    driver_version: str


def probe() -> Probed:
    """Ask the compilers and the driver of this machine: nvcc, gcc, clang and nvidia-smi.

    >>> tracer.describe(seed=7, **probe())

    Each is run, and waited for up to 20 seconds; once a program is enough. What is not there,
    fails or says something else is left out. Never raises.
    """
    told: Probed = {}
    toolchain = {
        name: version
        for name, arguments, form in (
            ("nvcc", ("--version",), r"\bV([0-9][0-9.]*)"),
            ("gcc", ("-dumpfullversion",), r"^([0-9][0-9.]*)"),
            ("clang", ("--version",), r"\bversion ([0-9][0-9.]*)"),
        )
        if (version := _found(form, _said(name, *arguments)))
    }
    if toolchain:
        told["toolchain"] = toolchain
    said = _said("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    device, comma, driver = said.partition("\n")[0].rpartition(", ")
    if comma:
        told["device"], told["driver_version"] = device, driver.strip()
    return told


def _said(*command: str) -> str:
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        )
        return done.stdout.decode("utf-8", "replace")
    return ""


def _found(form: str, said: str) -> str:
    found = re.search(form, said)
    return found[1] if found else ""
