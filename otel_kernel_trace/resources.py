"""What a kernel needs of the device, as the assembler says."""

from __future__ import annotations

from dataclasses import dataclass


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
