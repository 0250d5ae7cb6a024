"""What a kernel needs of the device, as the assembler says.

``nvcc -Xptxas -v`` and Triton with ``TRITON_DUMP_PTXAS_LOG=1`` print it:
https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#printing-code-generation-statistics
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.parsing import read

_INFO: Final = re.compile(r"(?:^|.{0,200} )ptxas(?:-\w{1,40})? info {1,8}: (?P<message>.*)")
_ENTRY: Final = re.compile(r"Compiling entry function '(?P<entry>[^'\n]{1,1500})' for '(?P<arch>\w{1,40})'")
_PROPERTIES: Final = re.compile(r"Function properties for '?(?P<name>[^'\s]{1,1500})'?$")
_STACK: Final = re.compile(
    r"(?P<stack_frame>\d{1,18}) bytes stack frame, (?P<spill_stores>\d{1,18}) bytes spill stores,"
    r" (?P<spill_loads>\d{1,18}) bytes spill loads"
)
_REGISTERS: Final = re.compile(r"Used (?P<number>\d{1,9}) registers\b")
_BARRIERS: Final = re.compile(r"\bused (?P<number>\d{1,9}) barriers\b")
_SHARED: Final = re.compile(r"\b(?P<number>\d{1,18}) bytes smem\b")
_CONSTANT: Final = re.compile(r"\b(?P<number>\d{1,18}) bytes cmem\[\d{1,3}\]")
_TIME: Final = re.compile(r"Compile time = (?P<number>\d{1,15}(?:\.\d{1,9})?) (?P<unit>ms|s)\b")


@dataclass(frozen=True, slots=True)
class KernelResources:
    """Of one entry function, for one architecture. What is not told is None."""

    entry: str
    """Name of the entry function, mangled as the assembler has it."""
    arch: str = ""
    """``sm_90`` …"""
    registers: int | None = None
    """Of a thread."""
    spill_stores: int | None = None
    """Bytes."""
    spill_loads: int | None = None
    """Bytes."""
    stack_frame: int | None = None
    """Bytes."""
    shared_memory: int | None = None
    """Bytes of a block, static."""
    constant_memory: int | None = None
    """Bytes."""
    barriers: int | None = None
    compile_time: float | None = None
    """Seconds."""


def parse_resources(text: str) -> tuple[KernelResources, ...]:
    """What the assembler says of each entry function, in the log's order; one for each time it was assembled.

    Lines between those of the assembler do not matter, and where the log is cut, the rest is None.
    Of two assemblers that write at once, a line that names no function is taken for the one begun last.
    Never raises; the time is linear in the length of the text.
    """
    assembled = _Assembled()
    read(text, [assembled])
    return tuple(assembled.entries)


class _Assembled(Parser):
    """Reads the lines of ``ptxas info``, and those that stand below one."""

    signs = ("ptxas", " bytes stack frame, ")

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[KernelResources] = []
        self._is_of_entry = (
            True  # where a device function's properties are told, the next line is not the entry's
        )

    def feed(self, line: Line) -> bool:
        info = _INFO.match(line.text)
        if info is not None:
            self._told(info["message"])
        elif self.entries and self._is_of_entry:
            stack = _STACK.match(line.text.strip())
            if stack is not None:
                stack_frame, stores, loads = map(
                    int, stack.group("stack_frame", "spill_stores", "spill_loads")
                )
                self._add(
                    replace(self.entries[-1], stack_frame=stack_frame, spill_stores=stores, spill_loads=loads)
                )
        return False

    def _told(self, message: str) -> None:
        entry = _ENTRY.match(message)
        if entry is not None:
            self.entries.append(KernelResources(entry["entry"], entry["arch"]))
            self._is_of_entry = True
            return
        if not self.entries:
            return
        last = self.entries[-1]
        properties = _PROPERTIES.match(message)
        if properties is not None:
            self._is_of_entry = properties["name"] == last.entry
        elif _REGISTERS.match(message):
            constants = [int(found["number"]) for found in _CONSTANT.finditer(message)]
            self._add(
                replace(
                    last,
                    registers=_number(_REGISTERS, message),
                    barriers=_number(_BARRIERS, message),
                    shared_memory=_number(_SHARED, message),
                    constant_memory=sum(constants) if constants else None,
                )
            )
        else:
            time = _TIME.match(message)
            if time is not None:
                seconds = float(time["number"]) / (1000 if time["unit"] == "ms" else 1)
                self._add(replace(last, compile_time=seconds))

    def _add(self, entry: KernelResources) -> None:
        self.entries[-1] = entry


def _number(pattern: re.Pattern[str], message: str) -> int | None:
    found = pattern.search(message)
    return int(found["number"]) if found is not None else None
