"""From any name to one that every file system takes."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_kernel_trace.names import safe_name

any_name = st.text() | st.sampled_from(
    [
        "",
        ".",
        "..",
        "...",
        "/",
        "a/b",
        "a\\b",
        "\0",
        "CON",
        "nul.txt",
        "COM¹",
        "%2E",
        "~",
        "a.",
        "a ",
        "x" * 300,
    ]
)


@pytest.mark.parametrize("name", ["exp_add_op", "123", "a-b.c", "矩阵乘", "LayerNorm", "a b", "-x", "naïve"])
def test_an_ordinary_name_stays_as_it_is(name: str) -> None:
    assert safe_name(name) == name


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        (".hidden", "%2Ehidden"),
        ("a\0b", "a%00b"),
        ("100%", "100%25"),
        ("a~2", "a%7E2"),
        ("end.", "end%2E"),
        ("CON", "%43ON"),
        ("con.txt", "%63on.txt"),
        ("console", "console"),
        ("\ud800", "%ED%A0%80"),
        ("a\u202eb", "a%E2%80%AEb"),
        ("", "~"),
    ],
)
def test_what_is_not_safe_is_percent_encoded(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@given(any_name)
def test_every_name_is_legal_everywhere(name: str) -> None:
    safe = safe_name(name)
    assert 0 < len(safe.encode()) <= 255
    assert not re.search(r'[\x00-\x1f\x7f/\\:*?"<>|]', safe)
    assert not safe.startswith(".")
    assert not safe.endswith((".", " "))
    assert not re.match(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)", safe)
    assert os.path.basename(safe) == safe


@given(st.lists(any_name, min_size=2, max_size=2, unique=True), st.sampled_from([48, 255]))
def test_two_names_never_share_one(names: list[str], max_bytes: int) -> None:
    assert safe_name(names[0], max_bytes) != safe_name(names[1], max_bytes)


def test_long_names_that_differ_at_the_end_differ() -> None:
    first, second = safe_name("x" * 10_000_000 + "a"), safe_name("x" * 10_000_000 + "b")
    assert first != second
    assert len(first) == len(second) == 255


@given(st.text(alphabet="é/矩%~", min_size=20), st.integers(min_value=30, max_value=60))
def test_a_shortened_name_cuts_no_character_and_no_escape(name: str, max_bytes: int) -> None:
    head = safe_name(name, max_bytes).partition("~")[0]
    assert not re.search(r"%[0-9A-F]?$", head)
    assert len(safe_name(name, max_bytes).encode()) <= max_bytes
