"""Instances that TensorRT takes for its own, where a program uses TensorRT.

``tensorrt.Builder(logger)`` and ``context.profiler = profiler`` take nothing but instances
of ``tensorrt.ILogger`` and ``tensorrt.IProfiler``, classes of pybind11 whose constructor has
to be called: https://pybind11.readthedocs.io/en/stable/advanced/classes.html. This package
never loads TensorRT: whoever has a builder has imported it.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Final, Literal, TypeVar

Interface = Literal["ILogger", "IProfiler"]

_Class = TypeVar("_Class")
_PACKAGES: Final = ("tensorrt", "tensorrt_rtx")

_made: dict[tuple[type, type], type] = {}


def with_interface(cls: type[_Class], interface: Interface) -> type[_Class]:
    """``cls``, or where a TensorRT is imported a subclass of both; the same one each time."""
    base = _base(interface)
    if base is None or issubclass(cls, base):
        return cls
    joined = _made.get((cls, base))
    if joined is None:
        content = {"__module__": cls.__module__, "__doc__": cls.__doc__}
        # pybind11's classes have a metaclass, which makes the new one.
        joined = _made.setdefault((cls, base), type(base)(cls.__name__, (cls, base), content))
    return joined


def construct_interface(instance: object, interface: Interface) -> None:
    """Call the constructor of the interface that ``instance`` has, if it has one."""
    base = _base(interface)
    if base is not None and isinstance(instance, base):
        with contextlib.suppress(TypeError):  # TensorRT 7 has none, and takes no logger of anybody's
            base.__init__(instance)  # type: ignore[misc]  # of that very class


def _base(interface: Interface) -> type | None:
    for package in _PACKAGES:
        base = getattr(sys.modules.get(package), interface, None)
        if isinstance(base, type):
            return base
    return None
