"""What the CUDA, HIP and Ascend run times say through PyTorch, Triton and C++ programs.

https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html
"""

from __future__ import annotations

import re
from typing import Final

from otel_kernel_trace.diagnostics.exceptions import said
from otel_kernel_trace.diagnostics.finding import Finding
from otel_kernel_trace.diagnostics.lines import Line
from otel_kernel_trace.diagnostics.model import Category
from otel_kernel_trace.diagnostics.parser import Parser
from otel_kernel_trace.diagnostics.wording import category_of

_SAYS: Final = re.compile(
    r"(?P<device>CUDA|HIP|cuda|NPU|CUDA driver|CUDA runtime|cuDNN|CUBLAS"
    r"|NCCL) ?(?:runtime )?[Ee]rror(?: at (?P<file>[^\s:]{1,500}):"
    r"(?P<line>\d{1,9}))?(?: \d{1,5})?: (?P<message>.*)"
    r"|Triton Error \[(?P<triton>CUDA|HIP)\]: (?P<said>.*)"
)
_DEVICE_ASSERT: Final = re.compile(
    r"(?P<file>[^\s:]{1,500}):(?P<line>\d{1,9}): (?:"
    r"(?P<function>[^\n]{1,500}?): )?block: \[[\d,]{1,40}\], thread: \[[\d,]{1,40}\] Assertion "
    r"[`'‘](?P<what>[^\n]{1,1000})[`'’] failed"
)
_CODE: Final = re.compile(
    r"\b(?:cudaError\w{1,80}|CUDA_ERROR_\w{1,80}|CUBLAS_STATUS_\w{1,80}|CUDNN_STATUS_\w{1,80}|hipError\w{1,80})"
)


_BY_CODE: Final[dict[str, Category]] = {
    "cudaErrorIllegalAddress": "crash",
    "cudaErrorMisalignedAddress": "crash",
    "cudaErrorLaunchFailure": "crash",
    "cudaErrorAssert": "crash",
    "cudaErrorIllegalInstruction": "crash",
    "cudaErrorMemoryAllocation": "out_of_memory",
    "cudaErrorLaunchOutOfResources": "resource",
    "cudaErrorLaunchTimeout": "timeout",
    "cudaErrorNoDevice": "environment",
    "cudaErrorInsufficientDriver": "environment",
    "cudaErrorNoKernelImageForDevice": "environment",
}
_CHECKED: Final = re.compile(
    r"(?:CUDA error at (?P<file>[^\s:]{1,500}):(?P<line>\d{1,9}) code=\d{1,5}\((?P<code>\w{1,80})\) .*"
    r"|GPUassert: (?P<said>[^\n]{1,300}) (?P<said_file>\S{1,500}) (?P<said_line>\d{1,9})$)"
)
"""``checkCudaErrors`` of the CUDA samples, and the macro that everybody copies."""


class CudaRuntimeParser(Parser):
    """``RuntimeError: CUDA error: an illegal memory access …``, and assertions in device code."""

    signs = (" error: ", "CUDA error", "GPUassert: ", "Error: ", "Triton Error [", ", thread: [")
    precedence = 2

    def __init__(self) -> None:
        super().__init__()
        self._asserted: Finding | None = None
        self._asserted_at = 0

    def feed(self, line: Line) -> bool:
        asserted = _DEVICE_ASSERT.match(line.text)
        if asserted is not None:
            self._assertion(asserted, line.number)
            return False
        checked = _CHECKED.match(line.text)
        if checked is not None:
            self._checked(checked, line)
            return False
        stated = said(line.text.removeprefix("what():"))
        found = _SAYS.match(stated.message)
        message = (found["message"] or found["said"] or "").strip() if found is not None else ""
        if found is None or not message or "out of memory" in message or message.startswith("no error"):
            return False
        code = _CODE.search(message)
        category = category_of(message)
        self.findings.append(
            Finding(
                "hip"
                if (found["device"] or found["triton"]) == "HIP"
                else "npu"
                if found["device"] == "NPU"
                else "cuda",
                "error",
                "crash" if category == "other" and "launch failure" in message else category,
                message,
                line.number,
                file=found["file"],
                line=int(found["line"]) if found["line"] else None,
                code=code.group(0) if code is not None else None,
            )
        )
        return False

    def _checked(self, found: re.Match[str], line: Line) -> None:
        code = found["code"]
        message = found["said"] or code
        self.findings.append(
            Finding(
                "cuda",
                "error",
                _BY_CODE.get(code, "other") if code else category_of(message),
                message,
                line.number,
                file=found["file"] or found["said_file"],
                line=int(found["line"] or found["said_line"]),
                code=code,
            )
        )

    def _assertion(self, found: re.Match[str], number: int) -> None:
        """Every thread that fails says so: of the same assertion one is kept, and how many they were."""
        message, last = f"Assertion '{found['what']}' failed", self._asserted
        is_next, self._asserted_at = number == self._asserted_at + 1, number
        place = (found["file"], int(found["line"]))
        if is_next and last is not None and last.message == message and (last.file, last.line) == place:
            last.figures["threads"] += 1.0
            return
        self._asserted = Finding(
            "cuda",
            "error",
            "crash",
            message,
            number,
            file=found["file"],
            line=int(found["line"]),
            function=found["function"],
            figures={"threads": 1.0},
        )
        self.findings.append(self._asserted)
