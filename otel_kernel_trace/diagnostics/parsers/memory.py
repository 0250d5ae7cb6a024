"""Out of memory, on the device or beside it: PyTorch, JAX, TensorFlow, NumPy, C++, Linux.

https://pytorch.org/docs/stable/notes/cuda.html#memory-management
https://docs.jax.dev/en/latest/gpu_memory_allocation.html
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.exceptions import said
from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser

_SAYS: Final = re.compile(
    r"(?:(?:CUDA|HIP|NPU|XPU|MPS backend|GPU) (?:error: )?out of memory"
    r"|CUDA driver error: out of memory|RESOURCE_EXHAUSTED: "
    r"|Out of memory: Killed process|Unable to allocate .{1,60} for an array|(?:\[enforce fail at "
    r"[^\]\n]{1,200}\] .{0,200})?DefaultCPUAllocator: "
    r"|std::bad_alloc|OOM when allocating|Memory allocation failed|virtual memory exhausted"
    r"|cannot allocate memory|CUDA_ERROR_OUT_OF_MEMORY"
    r"|cudaErrorMemoryAllocation|out of memory|ACL_ERROR_RT_MEMORY_ALLOCATION"
    r"|Triton Error \[CUDA\]: out of memory|cc1(?:plus)?: out of memory allocating)"
)
_SIZE: Final = re.compile(
    r"(?:allocate|allocating|requested|allocate memory: you tried to allocate) (?:an? )?"
    r"(?P<number>\d{1,15}(?:\.\d{1,6})?) ?(?P<unit>bytes|[KMGT]i?B|B)\b"
)
_UNITS: Final = {"K": 1, "M": 2, "G": 3, "T": 4}
_TYPES: Final = ("OutOfMemoryError", "MemoryError", "_ArrayMemoryError")


class OutOfMemoryParser(Parser):
    """``torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.``; the figure is in bytes."""

    signs = (
        "ut of memory",
        "MemoryError",
        "RESOURCE_EXHAUSTED",
        "bad_alloc",
        "OOM when allocating",
        "DefaultCPUAllocator",
        "OUT_OF_MEMORY",
        "memory exhausted",
    )
    precedence = 2

    def feed(self, line: Line) -> bool:
        if line.text.startswith((" ", "\t")):
            return False
        stated = said(line.text)
        name = (stated.type or stated.message).rpartition(".")[2]
        if name not in _TYPES and not _SAYS.match(stated.message):
            return False
        finding = Finding(_tool(line.text), "error", "out_of_memory", stated.message or name, line.number)
        finding.code = (stated.type or "").rpartition(".")[2] or (name if name in _TYPES else None)
        size = _SIZE.search(stated.message)
        if size is not None:
            finding.figures = {"required": _bytes(float(size["number"]), size["unit"])}
        self.findings.append(finding)
        return False


def _tool(text: str) -> str:
    for word, tool in (
        ("torch", "pytorch"),
        ("CUDA", "cuda"),
        ("NPU", "npu"),
        ("HIP", "hip"),
        ("xla", "jax"),
        ("RESOURCE_EXHAUSTED", "jax"),
        ("DefaultCPUAllocator", "pytorch"),
        ("numpy", "numpy"),
        ("Killed process", "linux"),
        ("bad_alloc", "c++"),
        ("cc1", "gcc"),
        ("virtual memory exhausted", "gcc"),
    ):
        if word in text:
            return tool
    return "python"


def _bytes(number: float, unit: str) -> float:
    power = _UNITS.get(unit[0], 0)
    return number * (1024.0 if unit != "bytes" and "i" in unit else 1000.0) ** power
