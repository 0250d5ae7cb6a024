"""Documents as JSON lines that Elasticsearch takes, whatever the tree holds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from otel_kernel_trace.ecs.documents import Document, documents_of
from otel_kernel_trace.ecs.fields import FIELDS
from otel_kernel_trace.indexed import Passed
from otel_kernel_trace.reader import Part, Tree

_EXCERPT_BYTES: Final = 2000
_MAX_CHARS: Final = 8000
"""Of a text: a keyword may have 32,766 bytes, and UTF-8 takes up to four for a character.
https://www.elastic.co/guide/en/elasticsearch/reference/current/ignore-above.html"""
_MAX_FACT: Final = 1000
"""Of a name or a value under a ``flattened`` field."""
_MAX_ITEMS: Final = 1000
"""Of a list: a document may have 10,000 nested objects.
https://www.elastic.co/guide/en/elasticsearch/reference/current/mapping-settings-limit.html"""
_INTEGERS: Final = {"integer": 2**31, "long": 2**63}


@dataclass(slots=True)
class EcsLines:
    """What was written."""

    documents: int = 0
    tasks: int = 0
    untimed: int = 0
    """Documents that no time is known of, and that were left out: a data stream takes none without one."""
    passed: Passed = field(default_factory=Passed)


def write_ecs(
    tree: Tree,
    out: BinaryIO,
    on_task: Callable[[], object] = lambda: None,
    on_count: Callable[[int], object] = lambda _: None,
) -> EcsLines:
    """Write a tree as JSON lines in the Elastic Common Schema; one task is in memory at a time.

    Args:
        tree: what to write.
        out: where to.
        on_task: called after every task.
        on_count: called once, before the first, with the number of tasks.

    Raises:
        OSError: ``out`` can't be written.
    """
    done = EcsLines(passed=tree.passed)
    tasks = tree.tasks()
    on_count(len(tasks))

    def excerpt(part: Part) -> str:
        try:
            return tree.text(part, _EXCERPT_BYTES)
        except (OSError, ValueError):
            return ""

    def file_time(path: str) -> int | None:
        try:
            return tree.changed(path)
        except (OSError, ValueError):
            return None

    for key in tasks:
        for document in documents_of(tree.task(*key), excerpt, file_time):
            if document["@timestamp"] is None:
                done.untimed += 1
                continue
            out.write(_line(document))
            done.documents += 1
        done.tasks += 1
        on_task()
    return done


def _line(document: Document) -> bytes:
    nested: dict[str, object] = {}
    for name, given in document.items():
        value = _value(name, given)
        if value is None:
            continue
        *parents, last = name.split(".")
        here = nested
        for parent in parents:
            inner = here.setdefault(parent, {})
            assert isinstance(inner, dict)  # no field is an object and a value at once
            here = inner
        here[last] = value
    return json.dumps(nested, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _value(name: str, given: object) -> object:
    """A value as its field takes it; None for one that it would not take, and for nothing."""
    kind = FIELDS[name]
    if kind == "nested":
        return [_object(name, one) for one in _items(given) if isinstance(one, Mapping)] or None
    if kind == "flattened":
        facts = given if isinstance(given, Mapping) else {}
        return {_key(fact): _text(str(value), _MAX_FACT) for fact, value in facts.items()} or None
    if isinstance(given, (list, tuple)):
        return [value for one in _items(given) if (value := _single(kind, one)) is not None] or None
    return _single(kind, given)


def _object(name: str, given: Mapping[str, object]) -> dict[str, object]:
    values = {inner: _value(f"{name}.{inner}", value) for inner, value in given.items()}
    return {inner: value for inner, value in values.items() if value is not None}


def _single(kind: str, given: object) -> object:
    if kind in _INTEGERS:
        return given if type(given) is int and -_INTEGERS[kind] <= given < _INTEGERS[kind] else None
    if kind == "double":
        is_number = isinstance(given, (int, float)) and not isinstance(given, bool) and abs(given) < 1e308
        return (
            float(given) if is_number and isinstance(given, (int, float)) and math.isfinite(given) else None
        )
    if kind == "boolean":
        return given if isinstance(given, bool) else None
    return _text(given, _MAX_CHARS) if isinstance(given, str) else None


def _items(given: object) -> list[object]:
    return list(given[:_MAX_ITEMS]) if isinstance(given, (list, tuple)) else []


def _key(name: str) -> str:
    # Under a flattened field a dot parts names, and NUL is not allowed.
    return _text(str(name), _MAX_FACT).replace("\0", "�").replace(".", "_") or "_"


def _text(text: str, most: int) -> str:
    """A text of which UTF-8 holds all, cut where it is long."""
    text = text.encode("utf-8", "backslashreplace").decode() if not text.isascii() else text
    return text if len(text) <= most else text[: most - 1] + "…"
