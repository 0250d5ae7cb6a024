"""What the pipeline's process is made with, told once for every task.

It runs in the pipeline: no package is imported, no program is run, and nothing raises.
:mod:`otel_kernel_trace.fingerprint.probing` does run compilers, for programs that ask for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import sys
from functools import lru_cache
from importlib import metadata
from typing import Final

from otel_kernel_trace import attributes
from otel_kernel_trace.revision import commit_at

_logger = logging.getLogger("otel_kernel_trace")

_PACKAGES: Final = (
    "torch",
    "torch-npu",
    "triton",
    "triton-ascend",
    "numpy",
    "numba",
    "mindspore",
    "tensorrt",
    "jax",
    "tilelang",
    "flashinfer-python",
    "nvidia-cutlass-dsl",
)
"""Whose versions decide what becomes of a kernel."""

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""What OpenTelemetry calls them."""


def environment() -> attributes.Attributes:
    """Attributes for a task's root span: packages that are installed, the commit, Python.

    Found out once for every working folder. Thread-safe. Never raises.
    """
    try:
        return dict(_environment(os.getcwd()))
    except Exception as error:  # noqa: BLE001 - the program that we watch goes on
        _logger.debug("it is not known what the task is made with: %r", error)
        return {}


@lru_cache(maxsize=8)
def _environment(folder: str) -> attributes.Attributes:
    machine = os.uname().machine
    versions = {}
    for name in _PACKAGES:
        with contextlib.suppress(Exception):  # not installed, or broken metadata
            versions[name] = metadata.version(name)
    return {
        attributes.RUNTIME_NAME: sys.implementation.name,
        attributes.RUNTIME_VERSION: platform.python_version(),
        attributes.OS_TYPE: sys.platform,
        attributes.HOST_ARCH: _ARCHITECTURES.get(machine, machine),
        **attributes.of_description(toolchain=versions, commit=commit_at(folder)),
    }
