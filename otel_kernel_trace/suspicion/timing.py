"""Rules about what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from otel_kernel_trace.suspicion.libraries import is_on_device
from otel_kernel_trace.suspicion.model import Examined, Suspicion

_LAUNCH: Final = 1e-6
"""Seconds. An empty kernel takes some 2 µs on NVIDIA's data centre GPUs, of which the device itself one."""
_FASTER_THAN_A_FRAMEWORK: Final = 10.0
"""What KernelBench calls excessive: frameworks call tuned libraries."""
_FASTER_THAN_ANYTHING: Final = 100.0
_MARGIN: Final = 1.05
_TUNED: Final = ("torch", "pytorch", "mindspore", "tensorflow", "jax", "paddle")


def zero_time(given: Examined) -> Iterator[Suspicion]:
    """The kernel took no time."""
    if given.measurement.generated_time == 0:
        yield Suspicion("zero_time", "The kernel's time is 0, so nothing was measured.", None, "0 s", "high")


def below_launch(given: Examined) -> Iterator[Suspicion]:
    """The kernel took less than its launch takes."""
    time = given.measurement.generated_time
    if time and time < _LAUNCH and is_on_device(given.impl_type):
        assumed = " (the profile names no unit)" if given.measurement.unit_is_assumed else ""
        yield Suspicion(
            "below_launch",
            f"The kernel's time{assumed} is shorter than launching an empty kernel takes, about 1 to 2 µs.",
            None,
            f"{time:.3g} s",
            "low" if assumed else "high",
        )


def beyond_device(given: Examined) -> Iterator[Suspicion]:
    """The kernel was faster than bandwidth and arithmetic of the device allow, as far as they are told."""
    roofline, time = given.measurement.roofline, given.measurement.generated_time
    least = roofline.least_time if roofline else None
    if least is not None and time and time * _MARGIN < least:
        yield Suspicion(
            "beyond_device",
            "The kernel's time is less than the device needs by the figures in the profile "
            "(bytes over bandwidth, operations over peak).",
            None,
            f"{time:.3g} s, at least {least:.3g} s",
            "medium" if given.measurement.unit_is_assumed else "high",
        )


def implausible_speedup(given: Examined) -> Iterator[Suspicion]:
    """The speedup is more than kernels of that kind are known to reach."""
    measured = given.measurement
    if measured.roofline is not None and measured.roofline.least_time is not None and measured.generated_time:
        return  # which says it better
    is_tuned = is_on_device(given.impl_type) and given.framework.strip().lower() in _TUNED
    most = _FASTER_THAN_A_FRAMEWORK if is_tuned else _FASTER_THAN_ANYTHING
    if measured.speedup is not None and measured.speedup > most:
        yield Suspicion(
            "implausible_speedup",
            f"The speedup is over {most:g}x. That is a rule of thumb, as the profile does not tell what the "
            "device could reach; a slow reference is another reason for it.",
            None,
            f"{measured.speedup:.4g}x",
            "medium" if is_tuned else "low",
        )


def contradicting_speedup(given: Examined) -> Iterator[Suspicion]:
    """The speedup is not that of the two times."""
    if contradiction := given.measurement.contradiction:
        yield Suspicion("contradicting_speedup", contradiction, None, "", "high")


RULES: Final[tuple[Callable[[Examined], Iterator[Suspicion]], ...]] = (
    zero_time,
    below_launch,
    beyond_device,
    implausible_speedup,
    contradicting_speedup,
)
