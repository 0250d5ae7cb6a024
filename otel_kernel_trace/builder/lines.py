"""One line of a builder's log, as a value.

The forms are TensorRT's, of versions 5 to 11, as ``trtexec --verbose``, its Python bindings,
TensorRT-LLM and Polygraphy print them, and those of
https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html. A line
is looked at in its first characters only and every pattern is linear, as layer names come
from models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

Severity = Literal["INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE"]
SEVERITIES: Final[tuple[Severity, ...]] = ("INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE")
"""By TensorRT's numbers, 0 to 4.
https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/c-api/classnvinfer1_1_1_i_logger.html"""

Kind = Literal[
    "fusion_made",
    "fusion_refused",
    "layers",
    "tactic_chosen",
    "tactic_timed",
    "tactic_skipped",
    "memory",
    "engine_time",
    "no_implementation",
    "fallback",
    "precision",
    "version",
]

Fact = str | int | float

_LOOKED_AT = 4096
"""Characters of a line in which facts are looked for; a fused layer's name may take a thousand."""
_MOST_TAGS = 8
_LONGEST_TAG = 48

_NAMES: Final[dict[str, Severity]] = {
    **{name: name for name in SEVERITIES},
    "F": "INTERNAL_ERROR",
    "E": "ERROR",
    "W": "WARNING",
    "I": "INFO",
    "V": "VERBOSE",
    "CRITICAL": "INTERNAL_ERROR",
    "FATAL": "INTERNAL_ERROR",
    "WARN": "WARNING",
    "DEBUG": "VERBOSE",
}
_NOTHING: Final[Mapping[str, Fact]] = MappingProxyType({})
_SPEAKERS: Final = frozenset(("TRT", "TensorRT", "TRT-LLM", "TensorRT-LLM"))


@dataclass(frozen=True, slots=True)
class BuilderLine:
    """What one line says."""

    severity: Severity
    message: str
    """The line without time, source and severity."""
    kind: Kind | None = None
    """What it tells of; None for a line that is only read."""
    facts: Mapping[str, Fact] = field(default_factory=lambda: _NOTHING)
    """By name, as far as they are told:

    of a fusion ``fused`` (what, as the line has it), ``into`` (what it became), ``rule`` (whose
    doing), ``node`` and ``reason``; of ``layers`` that, an int, and ``pass`` (after which pass;
    ``original``); of a tactic ``tactic`` (its number), ``name``, ``runner``, ``node``,
    ``milliseconds``, ``reason`` and ``bytes``; of ``memory`` ``bytes``, ``where`` (which
    memory, or what it is for) and ``device`` (``gpu`` or ``cpu``); of ``engine_time``
    ``seconds`` and ``phase`` (``generation``, or all: ``build``); of ``no_implementation``
    ``node``; of ``fallback`` ``tensor`` or ``node``; ``precision``; ``version``.
    """


def severity_named(name: str) -> Severity | None:
    """The severity of a name or of its letter, in whatever case; None where it is none."""
    return _NAMES.get(name) or _NAMES.get(name.upper())


def read_line(text: str, severity: Severity | None = None) -> BuilderLine:
    """Read one line.

    Args:
        text: the line, as in a log file.
        severity: where it is known: then the text is the bare message.
    """
    if severity is None:
        severity, text = _without_prefix(text)
    head = text if len(text) <= _LOOKED_AT else text[:_LOOKED_AT]
    for needle, read in _READERS:
        if needle in head:
            found = read(head)
            if found is not None:
                return BuilderLine(severity, text, *found)
    return BuilderLine(severity, text)


_Found = tuple[Kind, Mapping[str, Fact]]


def _without_prefix(text: str) -> tuple[Severity, str]:
    """Severity and message of a line of a log file.

    Prefixes are ``[TensorRT] VERBOSE: ``, ``[11/20/2026-10:00:00] [TRT] [I] ``, the same with
    source and severity the other way round, ``[V] ``, ``WARNING: [TRT]: ``,
    ``[2026-11-20 10:00:00 WARNING] `` and those with a process's name before, as ROS does.
    """
    severity: Severity | None = None
    text = text.rstrip("\r\n")
    text = text.removesuffix("\x1b[0m")
    at = _begin(text, 0)
    if text.startswith("[", at) and _tag(text, at) is None:
        end = text.find("]", at, at + _LONGEST_TAG)
        if end > 0 and text.startswith(" [", end + 1) and _tag(text, end + 2) is not None:
            at = end + 2
    for _ in range(_MOST_TAGS):
        tag = _tag(text, at)
        if tag is None:
            break
        at, said = _begin(text, tag[0]), tag[1]
        severity = severity or said
    return severity or "INFO", text[at:]


_GAP = re.compile(r"(?:[ \t]|\x1b\[[\d;]{0,10}m)*")


def _begin(text: str, at: int) -> int:
    """Where the next thing begins, past spaces and colours."""
    match = _GAP.match(text, at)
    return match.end() if match else at


def _tag(text: str, at: int) -> tuple[int, Severity | None] | None:
    """Where a tag of a prefix ends, and the severity that it is; None where none begins."""
    if text.startswith("[", at):
        end = text.find("]", at, at + _LONGEST_TAG)
        if end < 0:
            return None
        content = text[at + 1 : end].strip()
        after = end + 2 if text.startswith(":", end + 1) else end + 1
        if content in _SPEAKERS:
            return after, None
        if content in _NAMES:
            return after, _NAMES[content]
        if content[:2].isdigit() and (":" in content or "/" in content):
            return after, _NAMES.get(content.rpartition(" ")[2])
        return None
    end = text.find(":", at, at + 16)
    word = text[at:end] if end > 0 else ""
    return (end + 1, _NAMES[word]) if len(word) > 1 and word in _NAMES else None


_FUSING = re.compile(r"(?:([A-Za-z_]\w{0,79}): )?Fusing (.+)", re.DOTALL)
_ARROWS = (" -> ", " → ", " - ", " into ")


def _fusion(head: str) -> _Found | None:
    if not (match := _FUSING.match(head)):
        return None
    facts: dict[str, Fact] = {"rule": match[1]} if match[1] else {}
    fused = match[2].rstrip()
    for arrow in _ARROWS:
        before, found, after = fused.rpartition(arrow)
        if found:
            fused, facts["into"] = before, after.strip()
            break
    return "fusion_made", {"fused": fused.strip(), **facts}


def _merged(head: str) -> _Found | None:
    if not head.startswith("Merging layers: "):
        return None
    return "fusion_made", {"fused": head[16:].strip(), "rule": "Merging layers"}


_REFUSED = re.compile(
    r"\b(?:can ?not|can't|could not|couldn't|unable to|failed to|failed|not|skip|skipping) "
    r"(?:be |apply )?(?:fus(?:e|ed|ing|ion)\b)|\bfusion (?:is |was |has been )?"
    r"(?:disabled?|skipped|rejected|refused|impossible|not )",
    re.IGNORECASE,
)
_REASONS = (": ", " due to ", " because ", " since ")


def _refusal(head: str) -> _Found | None:
    match = None if head.startswith("Running: ") else _REFUSED.search(head)
    if match is None:
        return None
    said, reason = _told_with_reason(head[match.end() :])
    before = head[: match.start()].strip()
    facts: dict[str, Fact] = {}
    if before:
        facts["node"] = before.removeprefix("Layer ").removesuffix(":")
    if fused := said.strip(" .:"):
        facts["fused"] = fused
    if reason:
        facts["reason"] = reason
    return "fusion_refused", facts


def _told_with_reason(text: str) -> tuple[str, str]:
    """What stands before the first word of a reason, and after."""
    found = [(at, len(word)) for word in _REASONS if (at := text.find(word)) >= 0]
    if not found:
        return text, ""
    at, length = min(found)
    return text[:at], text[at + length :].strip().removesuffix(".")


_LAYERS = re.compile(r"(?:Original|After ([^:]{1,120})): (\d{1,9}) layers?\s*\Z")


def _layers(head: str) -> _Found | None:
    if not (match := _LAYERS.match(head)):
        return None
    return "layers", {"layers": int(match[2]), "pass": match[1] or "original"}


_TACTIC = r"(0x[0-9a-fA-F]{1,16}|-?\d{1,20})"
_TIMED = re.compile(rf"Tactic:? {_TACTIC} [Tt]ime:? ([\d.e+-]{{1,24}}|inf)\s*\Z")
_TIMED_NAMED = re.compile(rf"Tactic Name: (\S{{1,1024}}) Tactic: {_TACTIC} Time: ([\d.e+-]{{1,24}}|inf)\s*\Z")
_FASTEST = re.compile(rf"Fastest Tactic: {_TACTIC} Time: ([\d.e+-]{{1,24}}|inf)\s*\Z")
_CHOSEN = re.compile(rf">* ?Chose Runner Type: (\S{{1,256}}) Tactic: {_TACTIC}")
_ONLY = re.compile(rf"Tactic:? {_TACTIC} is the only option")
_SELECTED = re.compile(r"Selected kernel (\S{1,1024})(?: for (.{1,256}?) layer)?\b")
_NO_TIME = 1e30
"""TensorRT says so, or ``inf``, of a tactic that can't be used."""


def _tactic(head: str) -> _Found | None:
    if "Fastest Tactic: " in head:
        return _fastest(head)
    if match := _CHOSEN.match(head):
        return "tactic_chosen", {"runner": match[1], "tactic": match[2]}
    if match := _TIMED.match(head):
        return _timed({"tactic": match[1]}, match[2])
    if match := _TIMED_NAMED.match(head):
        return _timed({"name": match[1], "tactic": match[2]}, match[3])
    if match := _ONLY.match(head):
        return "tactic_chosen", {"tactic": match[1]}
    return None


def _fastest(head: str) -> _Found | None:
    at = head.rfind("Fastest Tactic: ")
    match = _FASTEST.match(head, at)
    milliseconds = None if match is None else _number(match[2])
    if match is None or milliseconds is None or milliseconds > _NO_TIME:
        return None
    node, found, _ = head[:at].rpartition(" profiling completed in ")
    return "tactic_chosen", {
        **({"node": node} if found else {}),
        "tactic": match[1],
        "milliseconds": milliseconds,
    }


def _timed(facts: dict[str, Fact], told: str) -> _Found:
    milliseconds = _number(told)
    if milliseconds is not None and milliseconds < _NO_TIME:
        facts["milliseconds"] = milliseconds
    return "tactic_timed", facts


def _selected(head: str) -> _Found | None:
    if not (match := _SELECTED.match(head)):
        return None
    return "tactic_chosen", {"name": match[1], **({"node": match[2]} if match[2] else {})}


_SKIPPED = re.compile(rf"(?:UNSUPPORTED_STATE)?(?:: )?Skipping tactic {_TACTIC}(?: due to (.*))?", re.DOTALL)
_REQUESTED = re.compile(r"(.*) on requested size of (\d{1,18})\b")


def _skipped(head: str) -> _Found | None:
    if not (match := _SKIPPED.match(head)):
        return None
    facts: dict[str, Fact] = {"tactic": match[1]}
    if reason := (match[2] or "").strip():
        requested = _REQUESTED.match(reason)
        facts["reason"] = (requested[1] if requested else reason).strip().removesuffix(".")
        if requested:
            facts["bytes"] = int(requested[2])
    return "tactic_skipped", facts


_UNITS: Final = {"": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_UNITS.update({"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9})
_SIZE = re.compile(r"(\d{1,19}(?:\.\d{1,9})?) ?(bytes|[KMG]iB|[kKMG]?B|)(?![\w.])")
_LARGEST = 2**63 - 1
"""What an attribute can hold."""
_ALLOCATORS = "[MemUsageStats] Peak memory usage of TRT CPU/GPU memory allocators: "
_SERIALIZING = "[MemUsageStats] Peak memory usage during Engine building and serialization: CPU: "
_CHANGE = re.compile(
    r"\[MemUsage(?:Change|Snapshot)\] ([^:]{1,256}): CPU .*?\bGPU (\d{1,9})(?: MiB| \(MiB\))"
)
_STATED = re.compile(
    r"(?:Total|Max|Estimated total|Allocated|Build phase peak) [\w ]{1,40}?(?:: | of size )(?=\d)"
)


def _memory(head: str) -> _Found | None:
    if head.startswith(_ALLOCATORS):
        at = head.find("GPU ", len(_ALLOCATORS))
        return _size_of(head, at + 4, "peak of allocators", "gpu") if at > 0 else None
    if head.startswith(_SERIALIZING):
        return _size_of(head, len(_SERIALIZING), "peak of building and serialization", "cpu")
    if match := _CHANGE.match(head):
        return "memory", {"bytes": int(match[2]) << 20, "where": f"in use: {match[1]}", "device": "gpu"}
    if match := _STATED.match(head):
        where = head[: match.end()].rstrip(": ").removesuffix(" of size")
        is_host = "Host" in where or where.startswith("Build phase")
        return _size_of(head, match.end(), where, "cpu" if is_host else "gpu")
    return None


def _size_of(head: str, at: int, where: str, device: str) -> _Found | None:
    match = _SIZE.match(head, at)
    if match is None:
        return None
    size = int(match[1]) if match[1].isdigit() else float(match[1])
    return "memory", {
        "bytes": min(int(size * _UNITS[match[2]]), _LARGEST),
        "where": where,
        "device": device,
    }


_GENERATED = re.compile(
    r"(?:Data initialization and e|E)ngine (generation completed|built) in ([\d.]{1,24}) s"
)


def _engine_time(head: str) -> _Found | None:
    match = _GENERATED.match(head)
    seconds = None if match is None else _number(match[2])
    if match is None or seconds is None:
        return None
    return "engine_time", {"seconds": seconds, "phase": "build" if match[1] == "built" else "generation"}


_NO_IMPLEMENTATION = "Could not find any implementation for node "


def _no_implementation(head: str) -> _Found:
    node, _, reason = head[head.index(_NO_IMPLEMENTATION) + len(_NO_IMPLEMENTATION) :].partition(" due to ")
    node = node.strip()
    # The line itself ends so, and within the error that repeats it.
    for end in (".)", "."):
        if node.endswith(end):
            node = node.removesuffix(end)
            break
    reason = reason.partition(". ")[0].strip().removesuffix(".")
    return "no_implementation", {"node": node, **({"reason": reason} if reason else {})}


_NO_SCALE = re.compile(r"Missing scale and zero-point for tensor (.+), expect fall ?back to ")
_NO_DLA = (" is not supported on DLA, fall", " is not running on DLA, fall")


def _no_scale(head: str) -> _Found | None:
    match = _NO_SCALE.match(head)
    return ("fallback", {"tensor": match[1]}) if match else None


def _no_dla(head: str) -> _Found | None:
    for said in _NO_DLA:
        before, found, _ = head.partition(said)
        if found:
            _, named, node = before.partition("ayer ")
            return "fallback", {"node": node if named else before}
    return None


_PRECISION = re.compile(r"Precision: ([\w+]{2,64})\s*\Z")


def _precision(head: str) -> _Found | None:
    match = _PRECISION.match(head)
    return ("precision", {"precision": match[1].lower()}) if match else None


_VERSION = re.compile(r"(?:NVIDIA )?TensorRT [Vv]ersion:? (\d{1,3}(?:\.\d{1,5}){1,3})")
_PACKED = re.compile(r"&&&& \w{1,20} TensorRT\.\S{1,80} \[TensorRT v(\d{4,7})\]")


def _version(head: str) -> _Found | None:
    if match := _VERSION.match(head):
        return "version", {"version": match[1]}
    if match := _PACKED.match(head):
        return "version", {"version": _unpacked(int(match[1]))}
    return None


def _unpacked(number: int) -> str:
    """``NV_TENSORRT_VERSION`` as text: of 8.6.1 8601, from 10.0 on of 10.3.0 100300."""
    if number >= 100_000:
        return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# What a line must hold for a reader to look at it: a search for a bare word costs next to nothing.
_READERS: Final[tuple[tuple[str, Callable[[str], _Found | None]], ...]] = (
    ("Skipping tactic ", _skipped),
    ("actic", _tactic),
    ("Fusing ", _fusion),
    (" layer", _layers),
    ("Merging layers: ", _merged),
    ("fus", _refusal),
    ("Fus", _refusal),
    ("Selected kernel ", _selected),
    ("emory", _memory),
    ("[MemUsage", _memory),
    ("ngine ", _engine_time),
    (_NO_IMPLEMENTATION, _no_implementation),
    ("Missing scale", _no_scale),
    (" on DLA, ", _no_dla),
    ("Precision: ", _precision),
    ("TensorRT", _version),
)
