"""What in a kernel or its measurement is known from generators that game their checks: hints, no verdicts.

>>> from otel_kernel_trace.suspicion import suspicions_of
>>> suspicions_of('{"gen_time_us": 0}', "def kernel(x):\\n    return x\\n", impl_type="triton")

The rules are in ``timing``, ``python_rules`` and ``cpp_rules``; a rule is a function in one of their
lists. What they look for has been seen in the wild:

- https://github.com/ScalingIntelligence/KernelBench/blob/main/src/kernelbench/kernel_static_checker.py
- Kevin, https://arxiv.org/abs/2507.11948 (fallbacks, inheriting from the reference)
- https://deep-reinforce.com/defense_kernel_hack.html (streams, threads, lazy tensors, patched timers)
- https://www.wafer.ai/blog/reward-hacks-field-guide (cached results, memory that nobody wrote)
- the AI CUDA Engineer, https://sakana.ai/ai-cuda-engineer/ (memory of the reference's output)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from otel_kernel_trace.suspicion.model import KINDS, Kind, Suspicion, decode, encode

if TYPE_CHECKING:
    from otel_kernel_trace.suspicion.rules import suspicions_of

__all__ = ["KINDS", "Kind", "Suspicion", "decode", "encode", "suspicions_of"]


def __getattr__(name: str) -> object:
    if name != "suspicions_of":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Rules take time to load, and who reads a tree needs none of them.
    return import_module(f"{__name__}.rules").suspicions_of
