"""From a model's reply to code and comment."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_kernel_trace.reply import Answer, document, parse

CODE = 'def f():\n    return {"a": 1}  # "quoted" \\ slashed\n'
ANSWER = Answer(CODE, "说明")
OBJECT = json.dumps(ANSWER._asdict())


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(OBJECT, id="alone"),
        pytest.param(json.dumps(ANSWER._asdict(), indent=2, ensure_ascii=False), id="indented"),
        pytest.param(f"\n \t{OBJECT}\n", id="with space around"),
        pytest.param(f"Sure!\n```json\n{OBJECT}\n```\nHope it helps.", id="fenced"),
        pytest.param(f"Use {{x}} and {{'a': 1}} so: {OBJECT} }} {{", id="among braces of prose"),
        pytest.param(f'[1, {OBJECT}, {{"code": 1}}]', id="in an array"),
        pytest.param(f'{{"answer": {OBJECT}}}', id="inside an object"),
        pytest.param(f'{{"answer": {OBJECT}, "then": ', id="inside an object that breaks off"),
        pytest.param(f'The config {{"shape": "(1, 2)}} was wrong: {OBJECT}', id="after an unclosed quote"),
        pytest.param('{"code": "old", "description": "old"}\nNo, better:\n' + OBJECT, id="last of two"),
        pytest.param(OBJECT + '\n{"code": "cut", "description": "cu', id="before one that breaks off"),
        pytest.param('{"code": 1, "description": "x"}' + OBJECT, id="after one with a number for code"),
        pytest.param('{"a":' * 100_000 + OBJECT + "}" * 100_000, id="100,000 levels deep"),
        pytest.param("[" * 100_000 + OBJECT, id="after 100,000 open brackets"),
        pytest.param(OBJECT[:-1] + ', "n": ' + "9" * 5000 + "}", id="with a number of 5000 digits"),
        pytest.param(OBJECT[:-1] + ', "more": {"code": "x", "description": "y"}}', id="outer of two nested"),
    ],
)
def test_the_object_is_found(reply: str) -> None:
    assert parse(reply) == ANSWER
    assert document(reply) == f"{CODE}\n\n\n'''\n说明\n'''"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param("", id="empty"),
        pytest.param("sorry, I cannot produce JSON", id="prose"),
        pytest.param("```python\nx = {1: 2}\n```", id="code"),
        pytest.param('{"code": "x"}', id="no description"),
        pytest.param('{"code": "x", "description": null}', id="description is null"),
        pytest.param('{"code": ["x"], "description": "y"}', id="code is a list"),
        pytest.param('{"code": "x", "description": "y"', id="unclosed"),
        pytest.param('{"code": "x", "description": "y",}', id="trailing comma"),
        pytest.param('{"code": "\\d", "description": "y"}', id="wrong escape"),
        pytest.param('{"code": "x", "description": "y", "code": 2}', id="the last of equal keys counts"),
        pytest.param(json.dumps(OBJECT), id="inside a string"),
    ],
)
def test_a_reply_without_such_an_object_stays_as_it_is(reply: str) -> None:
    assert parse(reply) is None
    assert document(reply) == reply


def test_line_breaks_in_strings_are_accepted() -> None:
    assert parse('{"code": "a\nb", "description": "c\td"}') == Answer("a\nb", "c\td")
    assert parse('so: {"code": "a\nb", "description": "c\td"}') == Answer("a\nb", "c\td")


def test_a_long_reply_is_scanned_and_gives_the_same() -> None:
    code = 'x = 1  # \\ " é\n' * 100_000
    assert parse(json.dumps({"code": code, "description": ""})) == Answer(code, "")


_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
_noise = st.text(alphabet="{}[]\":,\\ \nab'`0", max_size=40)


@given(
    code=st.text(), description=st.text(), more=st.dictionaries(st.text(), _json), ascii_only=st.booleans()
)
def test_any_strings_survive(code: str, description: str, more: dict[str, object], ascii_only: bool) -> None:
    fields = {**more, "code": code, "description": description}
    reply = json.dumps(fields, ensure_ascii=ascii_only)
    assert parse(reply) == (code, description)
    assert parse(f"It is {reply} indeed.") == (code, description)


@given(before=_noise, after=_noise)
def test_no_noise_raises_and_what_is_found_was_there(before: str, after: str) -> None:
    found = parse(before + OBJECT + after)
    assert found is None or isinstance(found, Answer)
    assert document(before) == before or parse(before) is not None


@given(noise=st.text(alphabet="abc ,.:\n'`0#\\[]}", max_size=40))
def test_noise_without_quotes_and_opening_braces_hides_nothing(noise: str) -> None:
    assert parse(noise + OBJECT + noise) == ANSWER
