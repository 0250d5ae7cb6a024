"""Tables in files of the user's: prices, rules. As JSON or TOML."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def read_table(path: str | os.PathLike[str], what: str) -> tuple[dict[str, object], str]:
    """The table of ``what`` in a file, by its name's ending TOML or else JSON, and the file's text.

    Raises:
        ValueError: it holds something else.
        OSError: it can't be read.
    """
    content = Path(path).read_text(encoding="utf-8-sig")
    try:
        given: object = _toml(content) if str(path).endswith(".toml") else json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(given, dict):
        raise ValueError(f"it holds no table of {what}")
    return given, content


def _toml(content: str) -> dict[str, object]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ModuleNotFoundError as error:
            raise ValueError(
                "TOML needs Python 3.11 or the extra otel-kernel-trace[cli]; or write it as JSON"
            ) from error
    return tomllib.loads(content)
