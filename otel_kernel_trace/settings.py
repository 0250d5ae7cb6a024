"""What can be set: by argument, else by environment variable, else by default."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeVar, cast, get_args

from otel_kernel_trace.layout import Layout

LOG_DIR_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR"
LAYOUT_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_LAYOUT"
ON_EXISTING_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_ON_EXISTING"
FILE_MODE_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_FILE_MODE"

DEFAULT_LOG_DIR: Final = "kernel_trace_logs"

OnExisting = Literal["continue", "overwrite", "fail"]

_T = TypeVar("_T")
_logger = logging.getLogger("otel_kernel_trace")


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked settings of an exporter."""

    log_dir: str
    """Absolute path without links, so that a tree has one name; nothing is said of whether it is there."""
    layout: Layout
    on_existing: OnExisting
    file_mode: int | None


def read_settings(
    log_dir: str | os.PathLike[str] | None,
    layout: str | Layout | None,
    on_existing: OnExisting | None,
    file_mode: int | str | None,
) -> Settings:
    """Settings from arguments, and from the environment for those that are None.

    A value of the environment that can't be used is logged, and the default is taken
    instead, as the OpenTelemetry specification asks: the program did not write it.

    Raises:
        ValueError: an argument is not one of those that can be.
        TypeError: an argument is of the wrong type.
    """
    return Settings(
        log_dir=_given(_log_dir, log_dir, LOG_DIR_VARIABLE, DEFAULT_LOG_DIR),
        layout=_given(_layout, layout, LAYOUT_VARIABLE, "design"),
        on_existing=_given(_on_existing, on_existing, ON_EXISTING_VARIABLE, "continue"),
        file_mode=_given(_file_mode, file_mode, FILE_MODE_VARIABLE, None),
    )


def _given(check: Callable[[object], _T], argument: object, variable: str, default: object) -> _T:
    if argument is not None:
        return check(argument)
    value = os.environ.get(variable, "").strip()
    if value:
        try:
            return check(value)
        except ValueError as error:
            chosen = "none" if default is None else repr(default)
            _logger.error("%s is ignored (%s), the default is used: %s", variable, error, chosen)
    return check(default)


def _log_dir(value: object) -> str:
    path = os.fspath(cast("str | os.PathLike[str]", value))
    if not isinstance(path, str):
        raise TypeError(f"log_dir must be a str or a path of str, not {path!r}")
    if not path or "\0" in path:
        raise ValueError(f"a log_dir can't be {path!r}")
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise ValueError(f"there is no home folder for {path!r}; write ./{path} for a folder of that name")
    path = expanded
    try:
        path = os.path.realpath(path)
    except OSError:  # the working folder is gone; the first record will tell
        return path
    return path[1:] if path.startswith("//") else path


def _layout(value: object) -> Layout:
    if isinstance(value, Layout):
        return value
    if isinstance(value, str) and value in Layout.by_name:
        return _layout_named(value)
    raise ValueError(f"a layout is one of {', '.join(sorted(Layout.by_name))}, not {value!r}")


@cache
def _layout_named(name: str) -> Layout:
    return Layout.by_name[name]()


def _on_existing(value: object) -> OnExisting:
    if value in get_args(OnExisting):
        return cast("OnExisting", value)
    raise ValueError(f"on_existing is one of {', '.join(get_args(OnExisting))}, not {value!r}")


def _file_mode(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = int(value, 8)
        except ValueError:
            raise ValueError(f"a file mode is octal, as 600 or 0o640, not {value!r}") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"file_mode must be an int, as 0o600, or octal digits, not {value!r}")
    if not 0 <= value <= 0o777 or value & 0o600 != 0o600:
        raise ValueError(f"a file mode lies below 0o1000 and lets the owner read and write, not {value:#o}")
    return value
