"""No text and no pattern takes more than linear time.

How patterns are made is looked at in their parsed form. Texts made to harm are run, too; the clock
is there against hanging alone.
"""

from __future__ import annotations

import faulthandler
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from otel_kernel_trace.redaction import Redacted, Redactor
from otel_kernel_trace.redaction.custom import ops, parser
from otel_kernel_trace.redaction.patterns import BUILT_IN, Rule

_HANGS_AFTER = 120
"""Seconds. What follows takes one or two, and with a quadratic pattern days."""
_MB = 1_000_000

_HARMFUL = (
    *dict.fromkeys(trigger for rule in BUILT_IN for trigger in rule.triggers),
    "sk-sk-",
    "sk-ant-",
    "eyJ.",
    "eyJeyJeyJeyJ.",
    "\\neyJ",
    "\\nsk-",
    "bearer  ",
    "authorization: bearer ",
    "password=",
    "password = ",
    "password='",
    'password="\\',
    'password=\\"',
    "password=[",
    "password=x(",
    "passwordpassword",
    "api_key",
    "api_key=",
    "token=a",
    "token=a(",
    "--api-key ",
    "--a-a-a-",
    "://a:",
    "://:",
    "://a@",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY",
    "-----BEGIN AAAAAAAAAAAAAAAAAAAAA",
    "-----END PRIVATE KEY-----",
    "-----END PRIVATE KEY\n",
    "a@a.",
    "a@a.aa(",
    "a-a.a@",
    "@a",
    "/home/a",
    "\\Users\\\\\\\\",
    "\\/home\\/",
    "\\u0073\\u006b-",
    "[redacted:openai_key]",
    "[redacted:",
    "\n",
    " ",
    "a",
    "A",
    "é",
    "İ",
)


@contextmanager
def _not_hanging() -> Iterator[None]:
    faulthandler.dump_traceback_later(_HANGS_AFTER, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


_PATTERNS = [(rule, each) for rule in BUILT_IN for each in (rule.pattern, rule.tail) if each is not None]


def _repeated(items: Any) -> Iterator[tuple[int, Any]]:
    """What is repeated in a parsed pattern, with how often at most."""
    for op, given in items:
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            yield given[1], given[2]
            yield from _repeated(given[2])
        elif op is ops.SUBPATTERN:
            yield from _repeated(given[3])
        elif op is ops.BRANCH:
            for branch in given[1]:
                yield from _repeated(branch)
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            yield from _repeated(given[1])


@pytest.mark.parametrize(("rule", "pattern"), _PATTERNS)
def test_a_pattern_begins_with_a_literal(rule: Rule, pattern: re.Pattern[str]) -> None:
    items = list(parser.parse(pattern.pattern))
    while items[0][0] is ops.SUBPATTERN:
        items = list(items[0][1][3])
    assert items[0][0] is ops.LITERAL


@pytest.mark.parametrize(("rule", "pattern"), _PATTERNS)
def test_what_repeats_without_a_bound_is_one_class_of_characters(
    rule: Rule, pattern: re.Pattern[str]
) -> None:
    for most, repeated in _repeated(parser.parse(pattern.pattern)):
        if most > 32768:
            [(op, _)] = list(repeated)
            assert op in (ops.IN, ops.NOT_LITERAL, ops.LITERAL)


@pytest.mark.parametrize("rule", BUILT_IN)
def test_nothing_is_found_where_no_substring_of_the_rule_is(rule: Rule) -> None:
    assert rule.triggers
    assert all(trigger == trigger.lower() for trigger in rule.triggers if rule.is_caseless)


@pytest.mark.parametrize("piece", _HARMFUL)
@pytest.mark.parametrize("end", ["", "!", "x" * 5000])
def test_a_text_made_to_harm(piece: str, end: str) -> None:
    text = piece * (_MB // 4 // len(piece)) + end
    with _not_hanging():
        redacted = Redactor().redact(text, is_cut=True)
        assert len(redacted.text) > 0


@pytest.mark.parametrize(
    "piece", ["sk-", "eyJ", "password=x(", "://a:", "a@a.", "-----BEGIN PRIVATE KEY-----", "a"]
)
@pytest.mark.slow
def test_ten_megabytes(piece: str) -> None:
    with _not_hanging():
        Redactor().redact(piece * (10 * _MB // len(piece)))


# --- Patterns of the user's own --------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "KERN-[0-9]{4,8}",
        "[A-Z]{3}-\\d{6}",
        "(?:ab|cd){1,3}",
        "(?i)internal",
        r"\bcase \d{1,9}\b",
        "(?<=id=)[0-9a-f]{32}",
    ],
)
def test_one_of_bounded_length_is_taken(expression: str) -> None:
    assert Redactor({"own": expression}).redact("KERN-1234").counts.keys() <= {"own"}


@pytest.mark.parametrize(
    "expression",
    [
        "a+",
        "(a+)+$",
        "(a|a)*b",
        "(?:x{1,9}){1,9}y",
        "a{1,40}b{1,40}c",
        ".*secret",
        "(a{1,5}|b{1,5}){1,5}",
        r"(a)\1",
        "a{5000}",
    ],
)
def test_any_other_is_refused_where_nothing_is_there_to_match_it_in_linear_time(expression: str) -> None:
    program = (
        "import sys; sys.modules['re2'] = None\n"
        "from otel_kernel_trace import Redactor\nRedactor({'own': sys.argv[1]})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, expression], capture_output=True, text=True, check=False
    )
    assert "ValueError: the pattern 'own'" in done.stderr
    assert "otel-kernel-trace[redaction]" in done.stderr


@pytest.mark.parametrize("expression", ["(", "[a", "x{2,1}", "", "a*", "a?", r"\b", "(?=a)"])
def test_one_that_is_none_or_matches_nothing_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="the pattern 'own'"):
        Redactor({"own": expression})


@pytest.mark.parametrize("name", ["", "Own", "a b", "a]", "9", "x" * 41])
def test_a_name_that_no_marker_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a kind is called"):
        Redactor({name: "abc"})


def test_words_and_patterns_beside_those_built_in() -> None:
    redactor = Redactor({"ticket": "KERN-[0-9]{4,8}"}, words=["Nightingale", "Night"])
    assert redactor.redact("Nightingale KERN-1234 password=abc Night") == Redacted(
        "[redacted:word] [redacted:ticket] password=[redacted:password] [redacted:word]",
        {"word": 2, "ticket": 1, "password": 1},
    )


def test_of_a_group_called_secret_that_alone_is_taken_out() -> None:
    redactor = Redactor({"case": "case (?P<secret>[0-9]{1,9})"})
    assert redactor.redact("case 123, line 4").text == "case [redacted:case], line 4"


def test_only_the_kinds_that_are_asked_for() -> None:
    redactor = Redactor(kinds=["email"])
    assert redactor.redact("a@example.com password=abc").text == "[redacted:email] password=abc"
    with pytest.raises(ValueError, match="no kind is called 'emails'"):
        Redactor(kinds=["emails"])


@pytest.mark.parametrize(("given", "error"), [({"words": [""]}, ValueError), ({"words": "abc"}, TypeError)])
def test_words_that_cannot_be(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Redactor(**given)


class TestWithRe2:
    """What the extra adds."""

    @pytest.fixture(autouse=True)
    def _re2(self) -> None:
        pytest.importorskip("re2")

    def test_patterns_without_a_bound(self) -> None:
        redactor = Redactor({"own": r"<<(?P<secret>.+?)>>"})
        assert (
            redactor.redact("é << x >> \ud800 <<y>>").text == "é <<[redacted:own]>> \ud800 <<[redacted:own]>>"
        )

    def test_what_re2_has_not_is_refused(self) -> None:
        with pytest.raises(ValueError, match="linear time"):
            Redactor({"own": r"(a+)\1"})

    @pytest.mark.parametrize("expression", ["(a+)+$", "(a|a)*b", "a*b|a", ".*.*=.*"])
    def test_no_text_makes_one_hang(self, expression: str) -> None:
        with _not_hanging():
            Redactor({"own": expression}).redact("a" * _MB)

    def test_where_too_many_matches_are_far_apart_the_text_is_replaced_whole(self) -> None:
        assert Redactor({"own": "a*b|a"}).redact("a" * _MB).text == "[redacted:failed]"
