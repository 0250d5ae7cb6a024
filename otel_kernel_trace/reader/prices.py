"""What models cost, from a file of the user's."""

from __future__ import annotations

import os

from otel_kernel_trace.reader.timeline import Price
from otel_kernel_trace.tables import read_table


def read_prices(path: str | os.PathLike[str]) -> dict[str, Price]:
    """Prices by model, from JSON or TOML.

    ``{"gpt-4.1": {"input": 2.0, "output": 8.0}}``: for a million tokens, in any one currency.

    Raises:
        ValueError: the file holds something else.
        OSError: it can't be read.
    """
    given, _ = read_table(path, "models")
    return {str(model): _price(model, told) for model, told in given.items()}


def _price(model: object, told: object) -> Price:
    if isinstance(told, dict):
        numbers = [told.get("input", 0), told.get("output", 0)]
        if all(isinstance(n, (int, float)) and not isinstance(n, bool) and n >= 0 for n in numbers):
            return Price(*map(float, numbers))
    raise ValueError(f"the price of {model!r} is two numbers, input and output, for a million tokens")
