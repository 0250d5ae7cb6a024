"""The rules of a check: which there are, and reading them out of a table. Pure functions."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, Literal

from otel_kernel_trace.diagnostics.model import CATEGORIES

Kind = Literal["number", "count", "share", "growth", "flag", "texts", "patterns", "categories"]
"""``number`` from 0 on; ``count`` a whole one; ``share`` from 0 to 1; ``growth`` a share that may be
over 1; ``flag`` true or false."""


class RulesError(ValueError):
    """The rules can't be used; the message has a line for everything that is wrong with them."""


@dataclass(frozen=True, slots=True)
class Key:
    """What a key of a table takes."""

    kind: Kind
    needs_baseline: bool = False


_NUMBER, _COUNT, _SHARE, _TEXTS = Key("number"), Key("count"), Key("share"), Key("texts")
_MAY_GROW, _MAY_FALL = Key("growth", needs_baseline=True), Key("share", needs_baseline=True)

TABLES: Final[Mapping[str, Mapping[str, Key]]] = {
    "tasks": {"minimum": _COUNT, "no_op_missing": Key("flag", needs_baseline=True)},
    "pass_rate": {"minimum": _SHARE, "may_fall": _MAY_FALL},
    "speedup": {"minimum": _NUMBER, "may_fall": _MAY_FALL},
    "steps": {"maximum": _COUNT, "may_grow": _MAY_GROW},
    "tokens": {"maximum": _COUNT, "total": _COUNT, "may_grow": _MAY_GROW},
    "cost": {"maximum": _NUMBER, "total": _NUMBER, "for_each_pass": _NUMBER},
    "compile_time": {"maximum": _NUMBER, "may_grow": _MAY_GROW},
    "peak_memory": {"maximum_mb": _NUMBER, "may_grow": _MAY_GROW},
    "stages": {"maximum_seconds": _NUMBER, "maximum_mb": _NUMBER},
    "kernels": {
        "registers": _COUNT,
        "spill_bytes": _COUNT,
        "shared_memory": _COUNT,
        "stack_frame": _COUNT,
        "registers_may_grow": _MAY_GROW,
        "spill_bytes_may_grow": _MAY_GROW,
    },
    "fusions": {
        "minimum": _COUNT,
        "minimum_rate": _SHARE,
        "maximum_refused": _COUNT,
        "made": _TEXTS,
        "not_refused": _TEXTS,
        "may_fall": Key("count", needs_baseline=True),
        "rate_may_fall": _MAY_FALL,
    },
    "messages": {"forbidden": _TEXTS, "forbidden_patterns": Key("patterns")},
    "diagnostics": {
        "allowed_categories": Key("categories"),
        "forbidden_categories": Key("categories"),
        "forbidden_signatures": _TEXTS,
        "no_new": Key("flag", needs_baseline=True),
    },
    "warnings": {"maximum": _COUNT, "no_new": Key("flag", needs_baseline=True)},
    "suspicions": {"maximum": _COUNT},
}
"""Every rule, by table and key."""

_FOR_ALL: Final[Mapping[str, Key]] = {"ops": _TEXTS, "optional": Key("flag")}
_FOR_SOME: Final[Mapping[str, Mapping[str, Key]]] = {
    "stages": {"names": _TEXTS},
    "kernels": {"names": _TEXTS},
    "pass_rate": {"significance": _SHARE},
}
"""What says of the rules in a table which things they are for, or how they are meant."""

_HEADER = re.compile(r"\s*\[{1,2}([^\[\]]{1,200})\]{1,2}\s*(?:#|$)")
_MOST = 1e15
"""A larger limit is none."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that has to be so."""

    table: str
    key: str
    limit: float = 0
    """Where it is a number."""
    texts: tuple[str, ...] = ()
    """Where it is a list."""
    ops: tuple[str, ...] = ("*",)
    """Patterns of the ops that it is for."""
    names: tuple[str, ...] = ("*",)
    """Patterns of the kernels or stages that it is for."""
    significance: float | None = None
    """Only a fall that chance makes less often than this counts."""
    is_optional: bool = False
    line: int = 0
    """Of the file, from 1; 0 where it is not known."""

    @property
    def name(self) -> str:
        """``speedup.minimum``"""
        return f"{self.table}.{self.key}"

    @property
    def needs_baseline(self) -> bool:
        """Whether it compares."""
        return TABLES[self.table][self.key].needs_baseline


def is_named(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a name is one that a pattern stands for: ``*``, ``?`` and ``[…]``, as in a shell."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def rules_in(given: Mapping[str, object], text: str = "", source: str = "rules") -> tuple[Rule, ...]:
    """The rules of a table as TOML has it.

    Args:
        given: tables by name; a list of tables is several with the same name.
        text: of the TOML file, for the numbers of lines.
        source: what messages call it.

    Raises:
        RulesError: something in it is unknown or of another type, or there is no rule in it.
    """
    rules: list[Rule] = []
    wrong: list[str] = []
    for name, told in given.items():
        if name not in TABLES:
            line = _line_of(text, name, 0, None)
            wrong.append(_wrong(source, line, f"[{_cut(name)}]", _unknown(name, TABLES)))
            continue
        tables = told if isinstance(told, list) else [told]
        for number, table in enumerate(tables):
            place = f"[{name}]" if not isinstance(told, list) else f"[[{name}]] {number + 1}"
            if not isinstance(table, Mapping):
                line = _line_of(text, name, number, None)
                wrong.append(_wrong(source, line, place, f"a table was expected, not {_cut(repr(table))}"))
                continue
            found, bad = _read_table(name, table)
            line_of = {key: _line_of(text, name, number, key) for key in table}
            wrong += [_wrong(source, line_of[key], f"{place} {_cut(key)}", why) for key, why in bad.items()]
            if not found and not bad:
                wrong.append(
                    _wrong(source, _line_of(text, name, number, None), place, "there is no rule in it")
                )
            rules += [replace(rule, line=line_of[rule.key]) for rule in found]
    if not rules and not wrong:
        wrong.append(f"{source}: there is no rule in it")
    if wrong:
        raise RulesError("\n".join(wrong))
    return tuple(rules)


def _read_table(name: str, table: Mapping[str, object]) -> tuple[list[Rule], dict[str, str]]:
    """The rules of one table, and what is wrong with which key."""
    keys = TABLES[name]
    modifiers = {**_FOR_ALL, **_FOR_SOME.get(name, {})}
    values: dict[str, float | tuple[str, ...]] = {}
    wrong: dict[str, str] = {}
    for key, told in table.items():
        known = keys.get(key) or modifiers.get(key)
        if known is None:
            wrong[key] = _unknown(key, {**keys, **modifiers})
            continue
        try:
            values[key] = _value(told, known.kind)
        except ValueError as error:
            wrong[key] = str(error)
    rules = [
        Rule(
            table=name,
            key=key,
            limit=0 if isinstance(value, tuple) else value,
            texts=value if isinstance(value, tuple) else (),
            ops=_texts(values.get("ops")) or ("*",),
            names=_texts(values.get("names")) or ("*",),
            significance=_float(values.get("significance")),
            is_optional=bool(values.get("optional", 0)),
        )
        for key, value in values.items()
        if key in keys and not (keys[key].kind == "flag" and not value)
    ]
    return rules, wrong


def _value(told: object, kind: Kind) -> float | tuple[str, ...]:
    if kind == "flag":
        if not isinstance(told, bool):
            raise ValueError(f"true or false was expected, not {_cut(repr(told))}")
        return float(told)
    if kind in ("texts", "patterns", "categories"):
        return _list(told, kind)
    if kind == "count" and (isinstance(told, bool) or not isinstance(told, int)):
        raise ValueError(f"a whole number was expected, not {_cut(repr(told))}")
    if isinstance(told, bool) or not isinstance(told, (int, float)) or told != told:  # NaN
        raise ValueError(f"a number was expected, not {_cut(repr(told))}")
    if told < 0 or told > _MOST:
        raise ValueError(f"a number from 0 to {_MOST:.0e} was expected, not {_cut(repr(told))}")
    if kind == "share" and told > 1:
        raise ValueError(f"a share from 0 to 1 was expected (0.05 is 5 %), not {_cut(repr(told))}")
    return told


def _list(told: object, kind: Kind) -> tuple[str, ...]:
    items = [told] if isinstance(told, str) else told
    if not isinstance(items, list) or not items or not all(isinstance(item, str) and item for item in items):
        raise ValueError(f"a list of texts was expected, none of them empty, not {_cut(repr(told))}")
    for item in items:
        if "\n" in item:
            raise ValueError(f"{_cut(repr(item))} has a line break, and only lines are looked at")
        if kind == "categories" and item not in CATEGORIES:
            raise ValueError(_unknown(item, dict.fromkeys(CATEGORIES)))
        if kind == "patterns":
            try:
                re.compile(item)
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"{_cut(item)!r} is no regular expression: {error}") from error
    return tuple(items)


def _texts(value: float | tuple[str, ...] | None) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _float(value: float | tuple[str, ...] | None) -> float | None:
    return None if isinstance(value, tuple) else value


def _unknown(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name[:100], known, n=1)
    return f"unknown; did you mean {near[0]}?" if near else f"unknown; there are: {', '.join(known)}"


def _wrong(source: str, line: int, place: str, why: str) -> str:
    return f"{place_of(source, line)}: {place}: {why}"


def place_of(source: str, line: int) -> str:
    """Where a rule stands, as ``rules.toml:7``."""
    return f"{source}:{line}" if line else source


def _line_of(text: str, table: str, number: int, key: str | None) -> int:
    """Where a table's key stands in a TOML file, as far as its lines begin with them; 0 if not."""
    header_line = 0
    for at, line in enumerate(text.split("\n"), 1):
        header = _HEADER.match(line)
        if header:
            if header_line:
                break  # the next table, and the key was not there
            if header[1].strip() == table:
                if number == 0:
                    header_line = at
                    if key is None:
                        return at
                number -= 1
        elif header_line and key is not None and line.partition("=")[0].strip().strip("\"'") == key:
            return at
    return header_line


def _cut(text: str) -> str:
    text = text if text.isprintable() else repr(text)  # a key of TOML may have line breaks
    return text if len(text) <= 80 else text[:79] + "…"
