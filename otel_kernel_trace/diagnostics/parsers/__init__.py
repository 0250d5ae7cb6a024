"""One tool, one file. Every :class:`~otel_kernel_trace.diagnostics.parser.Parser` here is in use."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from otel_kernel_trace.diagnostics.parser import Parser


@cache
def all_parsers() -> tuple[type[Parser], ...]:
    """The classes in this folder, by the names of their files. They are imported at the first call."""
    found: list[type[Parser]] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        members = vars(importlib.import_module(f"{__name__}.{module.name}"))
        found += [
            member
            for member in members.values()
            if inspect.isclass(member)
            and issubclass(member, Parser)
            and member.__module__ == f"{__name__}.{module.name}"
            and not inspect.isabstract(member)
        ]
    return tuple(found)
