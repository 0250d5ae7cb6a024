"""What can be set: by argument, else by environment variable, else by default."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast, get_args

from otel_kernel_trace.layout import Layout
from otel_kernel_trace.levels import Levels, read_levels

if TYPE_CHECKING:
    from otel_kernel_trace.redaction.redactor import Redactor

LOG_DIR_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR"
LAYOUT_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_LAYOUT"
ON_EXISTING_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_ON_EXISTING"
FILE_MODE_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_FILE_MODE"
REDACT_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_REDACT"
AUDIT_DIR_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_AUDIT_DIR"

LINKED_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_LINKED"
PREVIEW_CHARS_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_PREVIEW_CHARS"
LINK_BASE_VARIABLE: Final = "OTEL_EXPORTER_KERNEL_TRACE_LINK_BASE"

DEFAULT_PREVIEW_CHARS: Final = 1024
DEFAULT_LOG_DIR: Final = "kernel_trace_logs"

OnExisting = Literal["continue", "overwrite", "fail"]

_T = TypeVar("_T")
_logger = logging.getLogger("otel_kernel_trace")

_told: set[tuple[str, str]] = set()
"""Bad values that were logged: a process may make several exporters of one environment."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked settings of an exporter."""

    log_dir: str
    """Absolute path without links, so that a tree has one name; nothing is said of whether it is there."""
    layout: Layout
    on_existing: OnExisting
    file_mode: int | None
    levels: Levels
    redactor: Redactor | None = None
    """What takes the secrets out, None where nothing does."""
    audit_dir: str | None = None
    """Absolute path of the folder for texts as they were, None for nowhere; outside of the tree."""


def read_settings(
    log_dir: str | os.PathLike[str] | None,
    layout: str | Layout | None,
    on_existing: OnExisting | None,
    file_mode: int | str | None,
    level: str | None = None,
    redact: bool | Redactor | None = None,
    audit_dir: str | os.PathLike[str] | None = None,
) -> Settings:
    """Settings from arguments, and from the environment for those that are None.

    A value of the environment that can't be used is logged, and the default is taken
    instead, as the OpenTelemetry specification asks: the program did not write it.

    Raises:
        ValueError: an argument is not one of those that can be.
        TypeError: an argument is of the wrong type.
    """
    root = _given(_log_dir, log_dir, LOG_DIR_VARIABLE, DEFAULT_LOG_DIR)

    def audit(value: object) -> str | None:
        return _audit_dir(value, root)

    return Settings(
        log_dir=root,
        layout=_given(_layout, layout, LAYOUT_VARIABLE, "design"),
        on_existing=_given(_on_existing, on_existing, ON_EXISTING_VARIABLE, "continue"),
        file_mode=_given(_file_mode, file_mode, FILE_MODE_VARIABLE, None),
        levels=read_levels(level),
        redactor=_given(_redactor, redact, REDACT_VARIABLE, False, instead=True),
        audit_dir=_given(audit, audit_dir, AUDIT_DIR_VARIABLE, None),
    )


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Checked settings of an exporter that sends previews."""

    preview_chars: int
    link_base: str | None
    """Ends with ``/``."""


def read_link_settings(preview_chars: int | None, link_base: str | None) -> LinkSettings:
    """Settings from arguments, else from the environment, as :func:`read_settings` has them.

    Raises:
        ValueError: an argument is not one of those that can be.
        TypeError: an argument is of the wrong type.
    """
    return LinkSettings(
        preview_chars=_given(_preview_chars, preview_chars, PREVIEW_CHARS_VARIABLE, DEFAULT_PREVIEW_CHARS),
        link_base=_given(_link_base, link_base, LINK_BASE_VARIABLE, None),
    )


def _given(
    check: Callable[[object], _T],
    argument: object,
    variable: str,
    default: object,
    *,
    instead: object = None,
) -> _T:
    """``instead`` is what a value of the environment that can't be used is taken for, if not the default."""
    if argument is not None:
        return check(argument)
    value = os.environ.get(variable, "").strip()
    if value:
        try:
            return check(value)
        except ValueError as error:
            if (variable, value) not in _told:
                _told.add((variable, value))
                if instead is not None:
                    _logger.error("%s is taken for %s: %s", variable, str(instead).lower(), error)
                else:
                    chosen = "none" if default is None else repr(default)
                    _logger.error("%s is ignored (%s), the default is used: %s", variable, error, chosen)
            if instead is not None:
                return check(instead)
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


def _redactor(value: object) -> Redactor | None:
    if value is None or value is False:
        return None
    # Its rules take a while to be made, and most programs want none.
    from otel_kernel_trace.redaction.redactor import Redactor
    from otel_kernel_trace.redaction.rules_file import read_rules

    if isinstance(value, Redactor):
        return value
    if isinstance(value, bool):
        return Redactor() if value else None
    if not isinstance(value, str):
        raise TypeError(f"redact is True, False or a Redactor, not {value!r}")
    if value.lower() in ("true", "1", "yes", "on"):
        return Redactor()
    if value.lower() in ("false", "0", "no", "off"):
        return None
    if not value.endswith((".toml", ".json")):
        return Redactor(kinds=[kind.strip() for kind in value.split(",")])
    rules = read_rules(os.path.expanduser(value))
    try:
        return rules.redactor()
    except (ValueError, TypeError) as error:
        # Fewer rules would let secrets through that the file was to keep in.
        _logger.error(
            "a rule in %s can't be used: %s; its others are, with all that are built in", value, error
        )
        return rules.usable()


def _audit_dir(value: object, root: str) -> str | None:
    if value is None:
        return None
    folder = _log_dir(value)
    inner, outer = f"{folder}/", f"{root}/"
    if inner.startswith(outer) or outer.startswith(inner):
        raise ValueError(f"an audit_dir is no part of the tree, nor the tree of it: {folder} and {root}")
    return folder


def _layout(value: object) -> Layout:
    if isinstance(value, Layout):
        return value
    if isinstance(value, str) and value in Layout.by_name:
        return _layout_named(value)
    if isinstance(value, type) and issubclass(value, Layout):
        raise ValueError(f"a layout is an instance, {value.__name__}(), or a name, not the class itself")
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
        raise ValueError(
            f"a file mode lies below 0o1000 and lets the owner read and write, not {value:#o}; "
            'write it in octal, as 0o600 or "600"'
        )
    return value


def _preview_chars(value: object) -> int:
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            raise ValueError(f"preview_chars is a number of characters, not {value!r}")
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"preview_chars must be an int, not {value!r}")
    if value < 0:
        raise ValueError(f"preview_chars is at least 0, not {value}")
    return value


def _link_base(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"link_base must be a str, not {value!r}")
    if "://" not in value:
        raise ValueError(f"a link_base is a URL, as https://host/folder/ or file:///folder/, not {value!r}")
    return value if value.endswith("/") else f"{value}/"
