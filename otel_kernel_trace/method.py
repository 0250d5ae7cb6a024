"""How a Verifier says that it measured; what it measured is in :mod:`otel_kernel_trace.measurements`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

_MAX_TEXT = 2000
_MAX_DEVICE = 200
_MAX_KEYS = 1000
_MAX_RUNS = 10**9


@dataclass(frozen=True, slots=True)
class Method:
    """How a time was measured. What is not told is None or empty."""

    warmup: int | None = None
    """Runs before those that count."""
    repeats: int | None = None
    """Runs that count."""
    statistic: str = ""
    """``median``, ``mean`` or ``min`` of them."""
    timer: str = ""
    """``cuda_event``, ``do_bench``, ``msprof``, ``nsys``, ``cupti``, ``wall_clock``, or as told."""
    synchronised: bool | None = None
    """Whether the device had finished when the clock was read."""
    l2_flush: bool | None = None
    """Whether the second-level cache was emptied before every run."""
    device: str = ""

    def __str__(self) -> str:
        told = [
            f"{self.statistic} of {self.repeats} runs"
            if self.statistic and self.repeats is not None
            else self.statistic or ("" if self.repeats is None else f"{self.repeats} runs"),
            "" if self.warmup is None else f"{self.warmup} runs to warm up",
            _TIMERS_IN_WORDS.get(self.timer, self.timer),
            {None: "", True: "synchronised", False: "not synchronised"}[self.synchronised],
            {None: "", True: "L2 flushed", False: "L2 not flushed"}[self.l2_flush],
            f"on {self.device}" if self.device else "",
        ]
        return ", ".join(part for part in told if part)


_TIMERS: Final = MappingProxyType(
    {
        "do_bench": "do_bench",
        "cuda_event": "cuda_event",
        "cuda event": "cuda_event",
        "cuda.event": "cuda_event",
        "msprof": "msprof",
        "nsys": "nsys",
        "cupti": "cupti",
        "profiler": "profiler",
        "perf_counter": "wall_clock",
        "wall_clock": "wall_clock",
        "wall clock": "wall_clock",
        "wall-clock": "wall_clock",
        "time.time": "wall_clock",
    }
)
"""Words for a clock, and what it is called here."""

_TIMERS_IN_WORDS: Final = MappingProxyType({"cuda_event": "CUDA events", "wall_clock": "wall clock"})

_WARMUPS: Final = frozenset((
    "warmup", "warm_up", "warmups", "warmup_times", "warmup_runs", "warmup_iters",
    "warmup_iterations", "num_warmup", "n_warmup",
))  # fmt: skip
_REPEATS: Final = frozenset((
    "repeats", "repeat", "runs", "run_times", "rep", "reps", "iterations", "iters", "num_trials",
    "num_perf_trials", "n_repeat", "n_repeats", "num_runs", "num_iters", "trials", "samples",
))  # fmt: skip
_STATISTIC_KEYS: Final = frozenset((
    "statistic", "aggregation", "aggregate", "return_mode",
))  # fmt: skip
_TIMER_KEYS: Final = frozenset((
    "timer", "timing_method", "method", "timing_backend", "profiler",
))  # fmt: skip
_SYNC_KEYS: Final = frozenset((
    "synchronised", "synchronized", "synchronise", "synchronize", "sync",
))  # fmt: skip
_L2_KEYS: Final = frozenset((
    "l2_flush", "flush_l2", "clear_l2", "l2_clear", "l2_clear_size", "clear_l2_cache", "cold_l2",
))  # fmt: skip
_DEVICE_KEYS: Final = ("hardware", "device_name", "gpu", "device", "arch")
_INNER: Final = (
    "method", "metadata", "profile_settings", "settings", "config", "environment", "runtime_stats",
    "measurement_method",
)  # fmt: skip
"""Names of objects beside the numbers that say how these came about."""

_STATISTIC: Final = re.compile(r"\b(median|p50|mean|average|avg|minimum|min|best)\b", re.IGNORECASE)
_STATISTIC_OF: Final = re.compile(
    r"\b(median|mean|average|minimum|min|best) (?:of|over|after) ", re.IGNORECASE
)
_RUNS: Final = re.compile(
    r"\b([0-9]{1,9}) (?:timed |measured )?(?:runs|repeats|repetitions|iterations|iters|trials|reps)\b",
    re.IGNORECASE,
)
_WARMED: Final = re.compile(
    r"\b([0-9]{1,9}) (?:runs? |iterations? |times )?(?:to warm up\b|(?:of |for )?warm[ _-]?ups?\b)"
    r"|\bwarm[ _-]?ups?\s?[:=]\s?([0-9]{1,9})\b",
    re.IGNORECASE,
)
_SYNCHRONISED: Final = re.compile(
    r"\b(not |un|without )?(?:device )?synchroni[sz](?:ed|ation|e\(\))", re.IGNORECASE
)
_FLUSHED: Final = re.compile(
    r"\bL2(?: cache)? (?:is |was )?(not )?(?:flush|clear)|\b(?:flush|clear)(?:ed|ing)? (?:the )?L2"
    r"|\bcold cache",
    re.IGNORECASE,
)
_NAMES: Final = MappingProxyType(
    {"p50": "median", "average": "mean", "avg": "mean", "minimum": "min", "best": "min"}
)


def method_in_words(text: str) -> Method | None:
    """The method that a sentence tells, as ``median of 9 runs after 2 to warm up``; None for none."""
    text = text[:_MAX_TEXT]
    statistic, runs, warmed = _STATISTIC_OF.search(text), _RUNS.search(text), _WARMED.search(text)
    synchronised, flushed = _SYNCHRONISED.search(text), _FLUSHED.search(text)
    method = Method(
        warmup=int(warmed[1] or warmed[2]) if warmed else None,
        repeats=int(runs[1]) if runs else None,
        statistic=_name(statistic[1]) if statistic else "",
        timer=_timer(text),
        synchronised=None if synchronised is None else not synchronised[1],
        l2_flush=None if flushed is None else not flushed[1],
    )
    return None if method == Method() else method


def method_of(objects: Iterable[Mapping[str, object]], statistic: str = "") -> Method | None:
    """The method that the objects of a profile tell; None for a number without one.

    Args:
        objects: the outer ones first, which count more.
        statistic: what the name of the time itself says.
    """
    told = Method(statistic=statistic)
    device = ""
    for one in objects:
        inner = [value for name in _INNER if isinstance(value := one.get(name), dict)]
        for given in (one, *inner):
            if len(given) <= _MAX_KEYS:
                told = _added(told, given)
                device = device or _device(given)
        if not told.statistic and _is_mean(one):
            told = replace(told, statistic="mean")
        if not told.timer and "do_bench" in one:
            told = replace(told, timer="do_bench")
    return None if told == Method() else replace(told, device=device)


def _is_mean(given: Mapping[str, object]) -> bool:
    """Whether the time is the mean beside it, as KernelBench writes."""
    stats, runtime = given.get("runtime_stats"), given.get("runtime")
    return isinstance(stats, dict) and runtime is not None and stats.get("mean") == runtime


def _added(told: Method, given: Mapping[str, object]) -> Method:
    for key, value in given.items():
        key = key.lower().replace("-", "_") if len(key) < 50 else ""
        if key in _WARMUPS and told.warmup is None:
            told = replace(told, warmup=_count(value))
        elif key in _REPEATS and told.repeats is None:
            told = replace(told, repeats=_count(value))
        elif key in _SYNC_KEYS and told.synchronised is None and isinstance(value, bool):
            told = replace(told, synchronised=value)
        elif key in _L2_KEYS and told.l2_flush is None and isinstance(value, (bool, int)):
            told = replace(told, l2_flush=bool(value))
        elif isinstance(value, str) and key in _STATISTIC_KEYS and not told.statistic:
            found = _STATISTIC.search(value[:_MAX_TEXT])
            told = replace(told, statistic=_name(found[1]) if found else "")
        elif isinstance(value, str) and key in _TIMER_KEYS:
            told = _with_words(told, value[:_MAX_TEXT])
    return told


def _with_words(told: Method, text: str) -> Method:
    said = method_in_words(text) or Method(timer=text if text.strip() and " " not in text.strip() else "")
    return Method(
        warmup=said.warmup if told.warmup is None else told.warmup,
        repeats=said.repeats if told.repeats is None else told.repeats,
        statistic=told.statistic or said.statistic,
        timer=told.timer or said.timer[:_MAX_DEVICE],
        synchronised=said.synchronised if told.synchronised is None else told.synchronised,
        l2_flush=said.l2_flush if told.l2_flush is None else told.l2_flush,
    )


def _timer(text: str) -> str:
    lower = text.lower()
    return next((name for word, name in _TIMERS.items() if word in lower), "")


def _name(statistic: str) -> str:
    return _NAMES.get(statistic.lower(), statistic.lower())


def _count(value: object) -> int | None:
    is_count = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _MAX_RUNS
    return int(value) if is_count and isinstance(value, (int, float)) else None


def _device(given: Mapping[str, object]) -> str:
    found = (given.get(key) for key in _DEVICE_KEYS)
    return next((value[:_MAX_DEVICE] for value in found if isinstance(value, str) and value), "")
