"""What models cost, from a file of the user's."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from otel_kernel_trace.reader.timeline import Price


def read_prices(path: str | os.PathLike[str]) -> dict[str, Price]:
    """Prices by model, from JSON or (by Python 3.11 on) TOML.

    ``{"gpt-4.1": {"input": 2.0, "output": 8.0}}``: for a million tokens, in any one currency.

    Raises:
        ValueError: the file holds something else.
        OSError: it can't be read.
    """
    content = Path(path).read_text(encoding="utf-8")
    given: object
    if str(path).endswith(".toml"):
        if sys.version_info < (3, 11):
            raise ValueError("prices in TOML need Python 3.11; write them as JSON")
        import tomllib

        given = tomllib.loads(content)
    else:
        given = json.loads(content)
    if not isinstance(given, dict):
        raise ValueError(f"{path} holds no table of models")
    return {str(model): _price(model, told) for model, told in given.items()}


def _price(model: object, told: object) -> Price:
    if isinstance(told, dict):
        numbers = [told.get("input", 0), told.get("output", 0)]
        if all(isinstance(n, (int, float)) and not isinstance(n, bool) and n >= 0 for n in numbers):
            return Price(*map(float, numbers))
    raise ValueError(f"the price of {model!r} is two numbers, input and output, for a million tokens")
