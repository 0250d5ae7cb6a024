"""What a Verifier measured, as far as it says so."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from types import MappingProxyType

_SPEEDUP = re.compile(
    r"speed[ _-]?up\s*[:=]\s*([0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE][+-]?[0-9]{1,2})?)\s*x?", re.IGNORECASE
)


def profile_in(text: str) -> Mapping[str, object]:
    """A profile as it was given: a JSON object, or a text as ``speedup: 1.25x``."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict):
        return MappingProxyType(given)
    speedup = speedup_in(text)
    return MappingProxyType({} if speedup is None else {"speedup": speedup})


def speedup_in(text: str) -> float | None:
    """How many times as fast as the reference a kernel was; None where the profile does not say."""
    value: object = None
    if text.lstrip().startswith("{"):
        try:
            given = json.loads(text)
        except (ValueError, RecursionError):
            given = {}
        value = given.get("speedup") if isinstance(given, dict) else None
    if value is None:
        found = _SPEEDUP.search(text[:100_000])
        value = found[1] if found else None
    try:
        speedup = (
            float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
        )
    except (ValueError, OverflowError):
        return None
    return speedup if math.isfinite(speedup) and speedup >= 0 else None
