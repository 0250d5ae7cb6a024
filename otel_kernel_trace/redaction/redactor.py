"""From a text to the text without its secrets. Pure: no file, no log line, no clock."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from otel_kernel_trace.recent import Recent
from otel_kernel_trace.redaction.custom import rule_of_pattern, rule_of_words
from otel_kernel_trace.redaction.patterns import BUILT_IN, GROUP, KINDS, Pattern, Rule, rarest_of

FAILED: Final = "failed"
"""The kind of a text that could not be looked through, and so is replaced whole."""

_CHUNK: Final = 2048
"""Characters, up to the next line end, that are looked through together."""
_KEY: Final = 48
"""Characters by which a piece is found again."""
_SHORT: Final = 128
_MAX_REMEMBERED: Final = 1024
_MAX_LINES: Final = 8192
_MAX_LINE: Final = 256
_MAX_REMEMBERED_TEXT: Final = 262_144
"""A longer text would push all others out of the memory."""
_MAX_PASSES: Final = 8
_CUT: Final = 4096
"""How far from its end a text that was cut may have the beginning of a secret."""
_WEAKEST: Final = "email"
_SHORTEST_HOME: Final = 3

_NOTHING: Mapping[str, int] = MappingProxyType({})
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ESCAPES: Final = ("\\u00", "\\/")
_ESCAPE: Final = re.compile(
    r"\\(?:u00(2[b-fB-F]|3[0-9aAdD]|4[0-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aAeE])|/)"
)
"""JSON's escapes for letters, digits and what stands in tokens; without them it says the same."""

_Span = tuple[int, int, str]
"""Begin, end and kind of a secret in a text."""


class Redacted(NamedTuple):
    """A text without its secrets."""

    text: str
    counts: Mapping[str, int]
    """How many were replaced, by kind; empty where the text is as it was."""


def marker(kind: str) -> str:
    """What stands for a secret."""
    return f"[redacted:{kind}]"


class Redactor:
    """Finds secrets in texts, and puts markers in their place: ``[redacted:openai_key]``.

    Time is linear in the length of a text, whatever is in it, for built-in rules and for
    patterns of the user. What was looked through and found clean is remembered for a while,
    piece by piece: the prompts of one task have most of their lines in common.

    What has been redacted stays as it is: markers are no secrets.

    Two of the same arguments are equal. Thread-safe, and usable in a forked child.

    Args:
        patterns: regular expressions of the user's own, by the name that their markers have.
            Of a group named ``secret`` in one that group is replaced, else the whole match.
            Those of bounded length need nothing else; others need the extra ``redaction``.
        words: texts that are secret as they stand, such as the name of a project.
        kinds: of :data:`~otel_kernel_trace.redaction.KINDS` those to look for; default: all.

    Raises:
        ValueError: a pattern or a name can't be used; the message says why.
        TypeError: one is no string.
    """

    def __init__(
        self,
        patterns: Mapping[str, str] | None = None,
        *,
        words: Collection[str] = (),
        kinds: Collection[str] | None = None,
    ) -> None:
        if isinstance(words, str) or isinstance(kinds, str):
            raise TypeError("words and kinds are lists of texts, not one text")
        wanted = frozenset(KINDS if kinds is None else kinds)
        if not wanted <= frozenset(KINDS):
            unknown = ", ".join(sorted(map(repr, wanted - frozenset(KINDS))))
            raise ValueError(f"no kind is called {unknown}; there are {', '.join(KINDS)}")
        home = _home() if "home_folder" in wanted else None
        self._identity = (tuple((patterns or {}).items()), tuple(words), wanted, home)
        own = [rule_of_pattern(name, expression) for name, expression in (patterns or {}).items()]
        if words:
            own.append(rule_of_words("word", words))
        built_in = [rule for rule in BUILT_IN if rule.kind in wanted]
        if home is not None:
            built_in.append(rule_of_words("home_folder", (home,), is_folder=True))
        self._built_in = _Rules(built_in)
        self._own = _Rules(own)
        kind_names = sorted({FAILED, *KINDS, *(rule.kind for rule in own)})
        self._marker = re.compile(rf"\[redacted:(?:{'|'.join(kind_names)})\]")
        self._short: Recent[str, Redacted] = Recent(_MAX_REMEMBERED)
        """Short texts without secrets: names, as a rule."""
        self.known: Callable[[str], Redacted | None] = self._short.get
        """What :meth:`redact` gives for a text, where that is known; else None."""
        self._pieces: Recent[str, str] = Recent(_MAX_REMEMBERED)
        """Pieces of texts in which no built-in rule finds anything, by how they begin."""
        self._lines: set[str] = set()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Redactor):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def redact(self, text: str, *, is_cut: bool = False) -> Redacted:
        """A text without its secrets. Never raises: what can't be looked through is replaced whole.

        Args:
            text: any text.
            is_cut: whether it was cut at its end, so that there may be the beginning of a secret.
        """
        try:
            known = None if is_cut else self._short.get(text)
            if known is not None:
                return known
            text = text if type(text) is str else str.__str__(text)
            if not is_cut and self._is_clean(text):
                clean = Redacted(text, _NOTHING)
                return self._short.put(text, clean) if len(text) <= _SHORT else clean
            found = self._found(plain := _without_escapes(text), is_cut)
            if found:
                text = plain
            elif plain is not text:
                found = self._found(text, is_cut)
            return self._replaced(text, found) if found else Redacted(text, _NOTHING)
        except Exception:  # noqa: BLE001 - whatever it was, the text is not to go on as it is
            return Redacted(marker(FAILED), {FAILED: 1})

    def secrets_in(self, text: str) -> Mapping[str, str]:
        """The secrets themselves, and of which kind each is.

        Args:
            text: of which :meth:`redact` says that it has some.
        """
        plain = _without_escapes(text)
        return {plain[start:end]: kind for start, end, kind in self._found(plain, False)}

    def _replaced(self, text: str, found: list[_Span]) -> Redacted:
        """A text with markers in place of what was found, and of what was hidden by what it was joined to."""
        counts: dict[str, int] = {}
        for _ in range(_MAX_PASSES):
            text = _with_markers(text, found)
            for _, _, kind in found:
                counts[kind] = counts.get(kind, 0) + 1
            found = self._found(text, False)
            if not found:
                return Redacted(text, counts)
        raise OverflowError("secrets are joined to secrets without end")

    def _is_clean(self, text: str) -> bool:
        """Whether nothing is found in a text. Its lines tell, as all that is found begins in one of them."""
        if any(self._own.spans(text)):
            return False
        if not self._built_in.are_possible(text):
            return True
        start, size = 0, len(text)
        while start < size:
            begin = text[start : start + _KEY]
            piece = self._pieces.get(begin)
            if piece is not None and text.startswith(piece, start):
                end = start + len(piece)
                if end == size or piece[-1] == "\n":
                    start = end
                    continue
            end = text.find("\n", start + _CHUNK) + 1 or size
            piece = text[start:end]
            if not self._has_clean_lines(piece):
                return False
            if size <= _MAX_REMEMBERED_TEXT and len(piece) <= 2 * _CHUNK:
                self._pieces.put(begin, piece)
            start = end
        return True

    def _has_clean_lines(self, piece: str) -> bool:
        """Whether no built-in rule finds anything; lines that were there before are passed over."""
        known = self._lines
        new = [line for line in piece.split("\n") if line not in known]
        lines = "\n".join(new)
        if any(self._built_in.spans(lines)):
            return False
        plain = _without_escapes(lines)
        if plain is not lines and any(self._built_in.spans(plain)):
            return False
        if len(lines) <= 2 * _CHUNK:
            if len(known) + len(new) > _MAX_LINES:
                self._lines = known = set()
            known.update(line for line in new if len(line) <= _MAX_LINE)
        return True

    def _found(self, text: str, is_cut: bool) -> list[_Span]:
        """The secrets in a text, in order; where two overlap they are one."""
        spans = [*self._built_in.spans(text), *self._own.spans(text)]
        if is_cut:
            last = text[-_CUT:]
            before = len(text) - len(last)
            spans += [(before + start, before + end, kind) for start, end, kind in self._built_in.tails(last)]
        if not spans:
            return []
        markers = [found.span() for found in self._marker.finditer(text)] if "[redacted:" in text else []
        return list(_merged(_outside(sorted(spans, key=_by_place), markers)))


class _Rules:
    """Rules by what is quickest to look for: a text that lacks a character lacks all substrings with it."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._always: list[_Prepared] = []
        self._quick: dict[str, list[tuple[str, bool, _Prepared]]] = {}
        for rule in rules:
            prepared = _Prepared(rule)
            if not rule.triggers:
                self._always.append(prepared)
            for trigger in rule.triggers:
                rare = rarest_of(trigger)
                self._quick.setdefault(rare, []).append((trigger, rule.is_caseless, prepared))
                if rule.is_caseless and rare.isalpha():
                    self._quick.setdefault(rare.upper(), []).append((trigger, True, prepared))

    def are_possible(self, text: str) -> bool:
        """Whether there may be anything to find."""
        return bool(self._always) or any(rare in text for rare in self._quick)

    def spans(self, text: str) -> Iterator[_Span]:
        """What the rules find."""
        for rule in self._possible(text):
            yield from rule.spans(_lower(text) if rule.is_caseless else text, text)

    def tails(self, text: str) -> Iterator[_Span]:
        """What may be beginnings of secrets at the end of a text that was cut."""
        for rule in self._possible(text):
            yield from rule.tails(_lower(text) if rule.is_caseless else text, text)

    def _possible(self, text: str) -> Collection[_Prepared]:
        """The rules of which a substring is in the text."""
        found = dict.fromkeys(self._always)
        low = ""
        for rare, triggers in self._quick.items():
            if rare not in text:
                continue
            for trigger, is_caseless, rule in triggers:
                if is_caseless and not low:
                    low = _lower(text)
                if rule not in found and trigger in (low if is_caseless else text):
                    found[rule] = None
        return found


class _Prepared:
    """A rule as it is applied."""

    __slots__ = ("_finditer", "_groups", "_rule", "is_caseless")

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._finditer = rule.pattern.finditer
        self._groups = _groups_of(rule.pattern)
        self.is_caseless = rule.is_caseless

    def spans(self, searched: str, text: str) -> Iterator[_Span]:
        """What the rule finds; ``searched`` is ``text`` or that in lower case."""
        floor = 0
        for match in self._finditer(searched):
            for group in self._groups:
                start, end = match.span(group)
                if 0 <= start < end:
                    start = self._beginning(text, start, floor)
                    yield start, end, self._rule.kind
                    floor = end
                    break

    def tails(self, searched: str, text: str) -> Iterator[_Span]:
        """What may be the beginning of such a secret at the end of a text."""
        found = self._rule.tail.search(searched) if self._rule.tail else None
        if found is not None and found.end(GROUP) > found.start(GROUP):
            yield self._beginning(text, found.start(GROUP), 0), found.end(GROUP), self._rule.kind

    def _beginning(self, text: str, start: int, floor: int) -> int:
        if not self._rule.reach:
            return start
        before = text[max(floor, start - self._rule.reach) : start]
        first = start - len(before) + len(before.rstrip(self._rule.before))
        # The n of a line break in JSON is no letter of an address.
        return first + 1 if first < start and first and text[first - 1] == "\\" else first


def _groups_of(pattern: Pattern) -> tuple[int, ...]:
    named = tuple(index for name, index in pattern.groupindex.items() if name.startswith(GROUP))
    return named or (0,)


def _by_place(span: _Span) -> tuple[int, int]:
    return span[0], -span[1]


def _outside(spans: Iterable[_Span], markers: Collection[tuple[int, int]]) -> Iterator[_Span]:
    """The spans that are not within a marker; both are in order."""
    rest = iter(markers)
    begin, end = next(rest, (-1, -1))
    for span in spans:
        while begin >= 0 and end <= span[0]:
            begin, end = next(rest, (-1, -1))
        if not begin <= span[0] < span[1] <= end:
            yield span


def _merged(spans: Iterable[_Span]) -> Iterator[_Span]:
    """Spans in order, with those that overlap made one, which has the kind of the first.

    What looks like an address is none where it overlaps another: a password and a host, as a rule.
    """
    whole: _Span | None = None
    for span in spans:
        if whole is not None and span[0] < whole[1]:
            if whole[2] == _WEAKEST:
                whole = span
            elif span[2] != _WEAKEST:
                whole = (whole[0], max(whole[1], span[1]), whole[2])
            continue
        if whole is not None:
            yield whole
        whole = span
    if whole is not None:
        yield whole


def _with_markers(text: str, spans: Iterable[_Span]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end, kind in spans:
        pieces += (text[done:start], marker(kind))
        done = end
    pieces.append(text[done:])
    return "".join(pieces)


def _lower(text: str) -> str:
    """In lower case, every character in its place."""
    low = text.lower()
    return low if len(low) == len(text) else text.translate(_LOWER)


def _without_escapes(text: str) -> str:
    """A text in which JSON's escapes that hide a letter are undone; the text itself where there are none."""
    if "\\" not in text or not any(escape in text for escape in _ESCAPES):
        return text
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "/", text)


def _home() -> str | None:
    """The home folder of this process, where no rule has it that is for all of them."""
    home = os.path.expanduser("~").rstrip("/\\")
    if len(home) < _SHORTEST_HOME or not os.path.isabs(home) or home.startswith(("/home/", "/Users/")):
        return None
    return home
