"""What a Verifier measured, as far as it says so, and how it says that it was measured.

Profiles are what programs happen to write. Known forms, and where they come from:

- ``{"gen_time": …, "base_time": …, "speedup": …}``, in microseconds, and the log lines ``orig performance is
  … us``: AIKG's Verifier, https://gitee.com/mindspore/akg
- ``runtime``, ``ref_runtime``, ``runtime_stats``, ``metadata``: ``KernelExecResult`` of
  https://github.com/ScalingIntelligence/KernelBench ; from ``Event.elapsed_time``, hence milliseconds
- ``evaluation.performance.latency_ms``, ``.reference_latency_ms``, ``.speedup_factor``:
  https://github.com/flashinfer-ai/flashinfer-bench
- ``ms`` and ``do_bench``: https://triton-lang.org/main/python-api/generated/triton.testing.do_bench.html
- names with a unit (``base_time_us``, ``torch_ms``), and sentences (``speedup: 1.25x``, ``1.25x faster``).

A number that is none, negative or infinite is not known. Nothing in here raises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from otel_kernel_trace.method import Method, method_in_words, method_of

_MAX_TEXT = 100_000
"""Characters of a profile that is no JSON that are looked at."""
_MAX_NUMBER = 64
_MAX_KEY = 100
_MAX_DEPTH = 6
_MAX_CASES = 1000
_MAX_KEYS = 10_000

_AGREE: Final = 0.05
"""By how much a speedup that is told may differ from that of the two times: those are often rounded."""

_SECONDS: Final = MappingProxyType(
    {
        **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
        **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1e-3),
        **dict.fromkeys(("us", "usec", "usecs", "µs", "μs", "microsecond", "microseconds"), 1e-6),
        **dict.fromkeys(("ns", "nsec", "nsecs", "nanosecond", "nanoseconds"), 1e-9),
    }
)
_CONTAINERS: Final = frozenset((
    "evaluation", "performance", "profile", "profile_res", "profile_result", "perf", "measurement",
    "measurements", "timing", "result", "results", "speedup_result", "benchmark", "bench",
    "metrics", "exec_result", "kernel_exec_result",
))  # fmt: skip
"""Names of objects whose numbers are the kernel's; under others they may be of something else."""
_CASES: Final = frozenset((
    "cases", "results", "shapes", "workloads", "benchmarks", "test_cases", "measurements", "traces",
))  # fmt: skip

_QUANTITIES: Final = frozenset(("time", "latency", "runtime", "duration", "elapsed", "performance"))
_STATISTICS: Final = MappingProxyType(
    {"median": "median", "p50": "median", "mean": "mean", "avg": "mean", "average": "mean", "min": "min"}
)
_BASE: Final = frozenset((
    "base", "baseline", "reference", "ref", "orig", "original", "torch", "pytorch", "eager",
    "numpy", "mindspore", "framework",
))  # fmt: skip
_GENERATED: Final = frozenset((
    "gen", "generated", "kernel", "impl", "implementation", "custom", "new", "triton", "cuda",
    "solution", "optimized", "optimised", "candidate", "aikg", "exec", "execution", "ours",
))  # fmt: skip
_SPEEDUPS: Final = frozenset(
    ("speedup", "speed_up", "speedup_factor", "speedup_ratio", "speedup_vs_ref", "speedup_rate", "speedup_x")
)

_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE][+-]?[0-9]{1,2})?)"
_UNIT = r"(ns|[uµμ]s|ms|s|(?:nano|micro|milli)?sec(?:ond)?s?)\b"
_IS = r"\s{0,8}(?:[:=]|\bis\b|\bof\b)\s{0,8}"
_SPEEDUP_TEXT = re.compile(
    rf"speed[ _-]?up(?: (?:rate|factor|ratio))?{_IS}{_NUMBER}\s{{0,8}}x?"
    rf"|\b{_NUMBER}\s?[x×](?: times)? (?:faster|speed[ -]?up)\b"
    rf"|\b{_NUMBER} times (?:as fast|faster)\b",
    re.IGNORECASE,
)
_PERCENT = re.compile(rf"加速比[^:：\n]{{0,20}}[:：]\s{{0,8}}{_NUMBER}\s{{0,8}}%")
_TIME_TEXT = re.compile(
    r"\b([a-z]{2,15})[ _-](?:(?:kernel|implementation|mean|median|avg|average|min)[ _-])?"
    rf"(?:time|latency|runtime|duration|performance){_IS}{_NUMBER}\s{{0,8}}{_UNIT}",
    re.IGNORECASE,
)
_WITH_UNIT = re.compile(rf"{_NUMBER}\s{{0,8}}(?:{_UNIT}|[x×])?", re.IGNORECASE)
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Roofline:
    """What a profile tells of the work and of the device, in bytes, operations and seconds."""

    bytes_moved: float | None = None
    """What has to be read and written at least."""
    operations: float | None = None
    peak_bandwidth: float | None = None
    """Bytes a second."""
    peak_operations: float | None = None
    """Operations a second."""
    bound: float | None = None
    """Seconds, where the profile itself tells the least possible time."""

    @property
    def least_time(self) -> float | None:
        """Seconds that the device needs at least; None where too little is told."""
        times = [self.bound] if self.bound else []
        if self.bytes_moved and self.peak_bandwidth:
            times.append(self.bytes_moved / self.peak_bandwidth)
        if self.operations and self.peak_operations:
            times.append(self.operations / self.peak_operations)
        return max(times, default=None)


@dataclass(frozen=True, slots=True)
class Measurement:
    """How fast a kernel was. What the profile does not tell is None."""

    base_time: float | None = None
    """Seconds that the reference took."""
    generated_time: float | None = None
    """Seconds that the kernel took."""
    told_speedup: float | None = None
    """As the profile says it."""
    unit_is_assumed: bool = False
    """Whether the times bear no unit, and the one of the program that uses their names was taken."""
    roofline: Roofline | None = None
    method: Method | None = None
    """None: a number without a stated method."""
    cases: tuple[Measurement, ...] = ()
    """Of several shapes or workloads, as far as each has its own."""

    @property
    def computed_speedup(self) -> float | None:
        """By the two times."""
        if self.base_time is None or not self.generated_time:
            return None
        speedup = self.base_time / self.generated_time
        return speedup if math.isfinite(speedup) else None

    @property
    def speedup(self) -> float | None:
        """How many times as fast as the reference the kernel was: as told, else by the two times."""
        return self.computed_speedup if self.told_speedup is None else self.told_speedup

    @property
    def contradiction(self) -> str:
        """A sentence where what is told is not what the times say; empty where they agree."""
        told, computed = self.told_speedup, self.computed_speedup
        if told is None or computed is None or abs(told - computed) <= _AGREE * max(told, computed):
            return ""
        return f"The speedup is told as {told:.4g}x, and the two times make {computed:.4g}x."

    @property
    def how(self) -> str:
        """How it was measured, in words for people."""
        return "method not stated" if self.method is None else str(self.method)

    def __bool__(self) -> bool:
        """Whether it tells anything."""
        return any(
            value is not None for value in (self.base_time, self.generated_time, self.told_speedup)
        ) or bool(self.cases)


def profile_in(text: str) -> Mapping[str, object]:
    """A profile as it was given: a JSON object, or a text as ``speedup: 1.25x``."""
    given = document_in(text)
    if isinstance(given, dict):
        return MappingProxyType(given)
    speedup = speedup_in(text)
    return MappingProxyType({} if speedup is None else {"speedup": speedup})


def speedup_in(text: str) -> float | None:
    """How many times as fast as the reference a kernel was; None where the profile does not say."""
    given = document_in(text)
    if isinstance(given, dict) and type(told := given.get("speedup")) is float:
        return told if math.isfinite(told) and told >= 0 else None  # by far the most common form
    return _measurement(text, given).speedup


def measurement_in(text: str) -> Measurement:
    """What a profile tells, normalised; linear in its length."""
    return _measurement(text, document_in(text))


def measurement_of(profile: Mapping[str, object]) -> Measurement:
    """The same of a profile that is an object already."""
    return _measurement("", dict(profile))


def document_in(text: str) -> dict[str, object] | list[object] | None:
    """The JSON object or list that a profile is; None for one that is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, (dict, list)) else None


def number_in(value: object) -> float | None:
    """A number that is one and not negative, also in a text as ``3.1 ms``, without its unit; else None."""
    number, _ = _quantity(value)
    return number


def objects_in(given: object) -> Iterator[Mapping[str, object]]:
    """A profile's object, and those inside it whose numbers are the kernel's, the outer ones first."""
    level = [given]
    for _ in range(_MAX_DEPTH):
        inner: list[object] = []
        for one in level:
            if isinstance(one, list) and len(one) == 1:
                one = one[0]
            if isinstance(one, dict):
                yield one
                inner += [value for key, value in _items(one) if key in _CONTAINERS]
        level = inner


def words_of(key: object) -> str:
    """A key in one form: lower case, words joined by ``_``."""
    if not isinstance(key, str) or len(key) > _MAX_KEY:
        return ""
    return _CAPITAL.sub("_", key).lower().replace("-", "_").replace(" ", "_")


def _items(given: Mapping[str, object]) -> list[tuple[str, object]]:
    if len(given) > _MAX_KEYS:
        return []  # no profile, but a table
    return [(words_of(key), value) for key, value in given.items()]


def _measurement(text: str, given: dict[str, object] | list[object] | None) -> Measurement:
    if given is None:
        return _in_words(text[:_MAX_TEXT])
    objects = list(objects_in(given))
    times = [time for one in objects for time in _times_in(one)]
    base = min((time for time in times if time.is_base), default=None)
    generated = min((time for time in times if not time.is_base), default=None)
    return Measurement(
        base_time=None if base is None else base.seconds,
        generated_time=None if generated is None else generated.seconds,
        told_speedup=_told_speedup(objects),
        unit_is_assumed=any(time is not None and time.is_assumed for time in (base, generated)),
        roofline=_roofline(objects),
        method=method_of(objects, "" if generated is None else generated.statistic),
        cases=tuple(_cases(given)),
    )


def _told_speedup(objects: Iterable[Mapping[str, object]]) -> float | None:
    for one in objects:
        for key, value in _items(one):
            if key in _SPEEDUPS and (speedup := number_in(value)) is not None:
                return speedup
    return None


def _cases(given: dict[str, object] | list[object]) -> Iterator[Measurement]:
    lists = [given] if isinstance(given, list) else [value for key, value in _items(given) if key in _CASES]
    for one in lists:
        if isinstance(one, list) and len(one) > 1:
            for case in one[:_MAX_CASES]:
                if isinstance(case, dict) and (measured := _measurement("", case)):
                    yield measured


class _Time(NamedTuple):
    """A time in a profile. Of several for the same thing the least is taken: the first that says most."""

    is_assumed: bool
    rank: int
    """Of its statistic: the plain one, then median, mean and min."""
    seconds: float
    statistic: str
    is_base: bool


def _times_in(given: Mapping[str, object]) -> Iterator[_Time]:
    for key, value in _items(given):
        if key == "do_bench":
            # The median, also as the first of the quantiles; in milliseconds.
            first = value[0] if isinstance(value, list) and value else value
            if (number := number_in(first)) is not None:
                yield _Time(False, 1, number * 1e-3, "median", False)
            continue
        named = _named(key)
        if named is None:
            continue
        number, unit = _quantity(value)
        if number is None:
            continue
        is_assumed = not (named.unit or unit)
        unit = named.unit or unit or ("us" if named.is_aikgs else "ms")
        seconds = number * _SECONDS[unit]
        yield _Time(is_assumed, named.rank, seconds, named.statistic, named.is_base)


class _Named(NamedTuple):
    """What a key says of its number."""

    is_base: bool
    unit: str
    statistic: str
    rank: int
    is_aikgs: bool
    """Whether it is one of the names that AIKG gives to times in microseconds."""


_NAMES_OF_AIKG: Final = frozenset(("base_time", "gen_time", "generated_time"))


def _named(key: str) -> _Named | None:
    words = [word for word in key.split("_") if word]
    unit = words.pop() if words and words[-1] in _SECONDS else ""
    statistics = [_STATISTICS[word] for word in words if word in _STATISTICS]
    quantities = [word for word in words if word in _QUANTITIES]
    who = [word for word in words if word not in _STATISTICS and word not in _QUANTITIES]
    if not (unit or quantities) or len(statistics) > 1 or len(quantities) > 1:
        return None
    if not (who or quantities or statistics) and unit not in ("ms", "us"):
        return None  # a letter
    if not unit and not who and quantities[0] not in ("latency", "runtime"):
        return None  # a time of whatever
    is_base = bool(who) and who[0] in _BASE
    if not all(word in _BASE or word in _GENERATED for word in who):
        return None
    statistic = statistics[0] if statistics else ""
    rank = ("", "median", "mean", "min").index(statistic)
    return _Named(is_base, unit, statistic, rank, key in _NAMES_OF_AIKG)


def _quantity(value: object) -> tuple[float | None, str]:
    """A number, and the unit with which it stands in a text."""
    unit = ""
    number: float
    if isinstance(value, str):
        found = _WITH_UNIT.fullmatch(value.strip()) if len(value) <= _MAX_NUMBER else None
        if found is None:
            return None, ""
        number, unit = float(found[1]), (found[2] or "").lower()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            return None, ""
    else:
        return None, ""
    return (number, unit) if math.isfinite(number) and number >= 0 else (None, "")


_SCALES: Final = MappingProxyType(
    {
        "bytes_moved": ("bytes_moved", 1.0),
        "bytes": ("bytes_moved", 1.0),
        "total_bytes": ("bytes_moved", 1.0),
        "flops_total": ("operations", 1.0),
        "total_flops": ("operations", 1.0),
        "num_flops": ("operations", 1.0),
        "flop_count": ("operations", 1.0),
        "peak_bandwidth": ("peak_bandwidth", 1.0),
        "peak_bandwidth_gbps": ("peak_bandwidth", 1e9),
        "peak_bandwidth_gb_s": ("peak_bandwidth", 1e9),
        "peak_bandwidth_tb_s": ("peak_bandwidth", 1e12),
        "peak_flops": ("peak_operations", 1.0),
        "peak_gflops": ("peak_operations", 1e9),
        "peak_tflops": ("peak_operations", 1e12),
        "sol_bound_ms": ("bound", 1e-3),
        "sol_bound_us": ("bound", 1e-6),
        "roofline_ms": ("bound", 1e-3),
        "roofline_us": ("bound", 1e-6),
    }
)
"""What a key tells of work and device, and what one of its number is."""


def _roofline(objects: Sequence[Mapping[str, object]]) -> Roofline | None:
    told: dict[str, float] = {}
    inner = [
        one[name] for one in objects for name in ("metadata", "device", "work", "roofline") if name in one
    ]
    for one in (*objects, *(one for one in inner if isinstance(one, dict))):
        for key, value in _items(one):
            if key in _SCALES and (number := number_in(value)):
                field, scale = _SCALES[key]
                told.setdefault(field, number * scale)
    return Roofline(**told) if told else None


def _in_words(text: str) -> Measurement:
    base: float | None = None
    generated: float | None = None
    for found in _TIME_TEXT.finditer(text):
        who, number, unit = found[1].lower(), float(found[2]), found[3].lower()
        seconds = number * _SECONDS.get(unit, 1.0)
        if who in _BASE and base is None:
            base = seconds
        elif who in _GENERATED and generated is None:
            generated = seconds
    speedup: float | None = None
    if said := _SPEEDUP_TEXT.search(text):
        speedup = float(said[1] or said[2] or said[3])
    elif said := _PERCENT.search(text):
        speedup = float(said[1]) / 100
    return Measurement(
        base_time=base, generated_time=generated, told_speedup=speedup, method=method_in_words(text)
    )
