"""Rules about C++ and CUDA, alone or in the texts of a Python source. Comments and texts are blanks there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from otel_kernel_trace.suspicion.libraries import LIBRARY_CPP, is_by_hand, is_set_up
from otel_kernel_trace.suspicion.model import Examined, Suspicion

_HEAD: Final = re.compile(r"\b__global__\b|[{};]")
_NAME: Final = re.compile(r"(?!__)\b([A-Za-z_]\w{0,120})\s{0,8}\(")
_NOTHING: Final = re.compile(r"\s{0,2000}(?:return\s{0,8};\s{0,2000})?\}")
_WORD: Final = re.compile(r"[A-Za-z_]\w{0,120}")
_STREAM: Final = re.compile(
    r"\b(?:cuda|hip)StreamCreate\w{0,40}\s{0,8}\(|\bgetStreamFromPool\s{0,8}\(|\baclrtCreateStream\w{0,40}\s{0,8}\("
)
_JOINED: Final = re.compile(
    r"\b(?:cuda|hip)(?:StreamSynchronize|DeviceSynchronize|StreamWaitEvent|EventSynchronize)\b"
    r"|\baclrtSynchronize\w{1,40}|\.synchronize\s?\("
)
_WORKER: Final = re.compile(r"\bstd::(?:thread|async|jthread)\b|\bpthread_create\b|\.detach\s?\(\)")
_AWAITED: Final = re.compile(r"\.(?:join|get|wait)\s?\(\)|\bpthread_join\b|\bstd::jthread\b")
_MAX_HANDLERS: Final = 200
_CATCH: Final = re.compile(r"\bcatch\s{0,8}\([^){}]{0,200}\)\s{0,200}\{([^}]{0,2000})")


def no_kernel(given: Examined) -> Iterator[Suspicion]:
    """No kernel is defined in what is said to be CUDA or HIP."""
    language = given.impl_type.strip().lower()
    is_cuda = language in ("cuda", "cuda_c", "hip")
    if is_cuda and given.source.text.strip() and "__global__" not in given.source.text:
        yield Suspicion(
            "no_kernel", f"The source defines no kernel, and is said to be {language}.", confidence="high"
        )


def empty_kernel(given: Examined) -> Iterator[Suspicion]:
    """A kernel does nothing."""
    for part in given.source.cpp:
        for start, end in _kernels_in(part.code):
            if part.code[end] == "{" and _NOTHING.match(part.code, end + 1):
                yield given.at(part.line_at(start), "empty_kernel", "The kernel's body does nothing.", "high")


def unused_kernel(given: Examined) -> Iterator[Suspicion]:
    """Kernels are there, and nothing names one."""
    kernels = [
        (start, name[1], part)
        for part in given.source.cpp
        for start, end in _kernels_in(part.code)
        if (name := _NAME.search(part.code, start, end))
    ]
    if not kernels:
        return
    named: Counter[str] = Counter()
    for part in given.source.cpp:
        named.update(_WORD.findall(part.code))
    # CuPy, PyCUDA and NVRTC are given the name as a text.
    named.update(text.strip() for _, text in given.source.texts if len(text) < 200)
    if not given.source.is_python:
        named.update(re.findall(r'"(\w{1,120})"', given.source.text))
    defined = Counter(name for _, name, _ in kernels)
    is_alone = not given.source.is_python and "<<<" not in given.source.code  # its launch is elsewhere
    if not is_alone and all(named[name] <= count for name, count in defined.items()):
        start, _, part = kernels[0]
        yield given.at(
            part.line_at(start),
            "unused_kernel",
            "Nothing in the source launches the kernel that it defines.",
            "high",
        )


def _kernels_in(code: str) -> Iterator[tuple[int, int]]:
    """Where kernels begin, and the bracket or semicolon that follows their arguments."""
    start: int | None = None
    for found in _HEAD.finditer(code):
        if found[0] == "__global__":
            start = found.start()
        elif start is not None:
            if found[0] != "}":
                yield start, found.start()
            start = None


def library_call(given: Examined) -> Iterator[Suspicion]:
    """A library does the work of a kernel that is to be written by hand."""
    if not is_by_hand(given.impl_type):
        return
    for part in given.source.cpp:
        for found in LIBRARY_CPP.finditer(part.code):
            if not is_set_up(found[0]):
                yield given.at(
                    part.line_at(found.start()),
                    "library_call",
                    f"A library does work that a kernel in {given.impl_type} is to do itself.",
                )


def reference_fallback(given: Examined) -> Iterator[Suspicion]:
    """A handler of exceptions that has a library compute the result."""
    for part in given.source.cpp:
        for found in islice(_CATCH.finditer(part.code), _MAX_HANDLERS):
            if LIBRARY_CPP.search(found[1]):
                yield given.at(
                    part.line_at(found.start()),
                    "reference_fallback",
                    "Where the kernel raises, a library computes the result, so that a kernel that never ran "
                    "may pass.",
                    "high",
                )


def other_stream(given: Examined) -> Iterator[Suspicion]:
    """Work goes to a stream that the clock may not wait for."""
    for part in given.source.cpp:
        if (found := _STREAM.search(part.code)) and not _JOINED.search(part.code):
            yield given.at(
                part.line_at(found.start()),
                "other_stream",
                "Work goes to another stream and nothing here waits for it; a clock on the default stream "
                "does not see it.",
                "high",
            )


def background_work(given: Examined) -> Iterator[Suspicion]:
    """Work goes to a thread that nothing waits for."""
    for part in given.source.cpp:
        if (found := _WORKER.search(part.code)) and not _AWAITED.search(part.code):
            yield given.at(
                part.line_at(found.start()),
                "background_work",
                "Work goes to a thread, and nothing here waits for it.",
            )


RULES: Final[tuple[Callable[[Examined], Iterator[Suspicion]], ...]] = (
    no_kernel,
    empty_kernel,
    unused_kernel,
    library_call,
    reference_fallback,
    other_stream,
    background_work,
)
