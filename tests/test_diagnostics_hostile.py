"""Logs that are cut, mixed or made up: no exception, nothing wrong, and work that grows with the length."""

from __future__ import annotations

from collections import Counter
from itertools import chain, zip_longest
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_kernel_trace.diagnostics import Diagnostic, parse_diagnostics
from otel_kernel_trace.diagnostics.parsers import all_parsers
from otel_kernel_trace.diagnostics.parsing import read
from otel_kernel_trace.resources import parse_resources

FOLDER = Path(__file__).parent / "logs"
REAL = {path.stem: path.read_bytes().decode() for path in sorted(FOLDER.glob("*.log"))}
ALL = REAL | {path.stem: path.read_bytes().decode() for path in sorted((FOLDER / "reported").glob("*.log"))}
CUT_EVERYWHERE = {
    "asan",
    "gcc_json",
    "gcc_missing_header",
    "gcc_utf8_many",
    "ld_undefined",
    "numba_typing",
    "numpy_mismatch",
    "nvcc_many_errors",
    "nvcc_ptxas_v",
    "nvcc_spill",
    "nvcc_undefined_identifier",
    "ptxas_smem_error",
    "segfault",
    "triton_all",
}
"""At every byte; the others at every thirteenth."""


def place(diagnostic: Diagnostic) -> tuple[str, int | None, str | None]:
    return (diagnostic.file or "", diagnostic.line, diagnostic.function)


def what(diagnostic: Diagnostic) -> tuple[str, ...]:
    """What a diagnostic says, without where in the log it says so."""
    return (diagnostic.tool, diagnostic.category, diagnostic.message, str(place(diagnostic)))


SAID = {name: Counter(map(what, parse_diagnostics(text))) for name, text in ALL.items()}


@pytest.mark.parametrize("name", ALL)
def test_a_log_that_is_cut_anywhere_tells_no_place_that_it_does_not_name(name: str) -> None:
    text = ALL[name]
    for end in range(0, len(text), 1 if name in CUT_EVERYWHERE else 13):
        lines = text[:end].splitlines()
        for diagnostic in parse_diagnostics(text[:end]):
            file, number = diagnostic.file or "", str(diagnostic.line or "")
            assert any(file in line and number in line for line in lines)


@pytest.mark.parametrize("name", ALL)
def test_a_log_that_is_cut_after_a_line_tells_what_it_told_till_then(name: str) -> None:
    whole = parse_diagnostics(ALL[name])
    lines = ALL[name].splitlines(keepends=True)
    for end in range(len(lines)):
        ended = parse_diagnostics("".join(lines[:end]))[:-2]  # the last may go on, and have a cause before it
        assert ended == whole[: len(ended)]


@pytest.mark.parametrize("name", ALL)
def test_bytes_that_are_cut_inside_a_character_raise_nothing(name: str) -> None:
    raw = ALL[name].encode()
    for end in range(0, len(raw), 29):
        parse_diagnostics(raw[:end].decode("utf-8", "replace"))
        parse_resources(raw[:end].decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("first", ALL)
def test_one_log_after_another_gives_what_both_give(first: str) -> None:
    if first == "python_cut":
        return  # what the next log says first would be its exception
    for second, text in ALL.items():
        joined = parse_diagnostics(f"{ALL[first]}\n\n{text}")
        assert Counter(map(what, joined)) == SAID[first] + SAID[second], second


COMPILERS = [
    "nvcc_undefined_identifier",
    "gcc_utf8_many",
    "ptxas_smem_error",
    "ld_undefined",
    "gcc_missing_header",
]
PROGRAMS = ["numpy_mismatch", "triton_all", "segfault", "asan", "gcc_json", "python_chain"]


@pytest.mark.parametrize("one", COMPILERS)
@pytest.mark.parametrize("other", COMPILERS + PROGRAMS)
def test_two_that_write_at_once_are_told_apart(one: str, other: str) -> None:
    if one == other:
        return
    lines = zip_longest(REAL[one].splitlines(), REAL[other].splitlines())
    mixed = "\n".join(line for line in chain.from_iterable(lines) if line is not None)
    found = Counter(
        (each.tool, each.category, each.identifier, each.file, each.line) for each in parse_diagnostics(mixed)
    )
    expected = Counter(
        (each.tool, each.category, each.identifier, each.file, each.line)
        for name in (one, other)
        for each in parse_diagnostics(REAL[name])
    )
    assert found == expected


FRAGMENTS = st.sampled_from(
    [
        *sorted({sign for parser in all_parsers() for sign in parser.signs}),
        *(line for text in ALL.values() for line in text.splitlines()),
        "\x1b[31m",
        "\r\n",
        "\n",
        "\x00",
        "  ^",
        "\ud800",
        '[{"kind": "error", "message": 1, "locations": [{"caret": 3}]}]',
        '[{"kind": "error", "message": "x", "locations": [{"caret": {"line": -1, "file": []}}]}]',
        '{"version": "2.1.0", "runs": [{"results": [{"message": {"text": null}, "locations": 3}]}]}',
        "[" * 2000,
    ]
)


@given(st.lists(FRAGMENTS | st.text(max_size=20), max_size=40).map("".join))
@settings(max_examples=300, deadline=None)
def test_whatever_comes_there_is_an_answer(text: str) -> None:
    lines = text.count("\n") + 1
    for diagnostic in parse_diagnostics(text):
        assert 1 <= diagnostic.log_line <= lines
        assert diagnostic.line is None or diagnostic.line >= 0
        assert diagnostic.message
        assert diagnostic.signature.startswith(f"{diagnostic.tool}:{diagnostic.category}:")
    parse_resources(text)


@given(st.lists(FRAGMENTS, max_size=30))
@settings(max_examples=100, deadline=None)
def test_diagnostics_come_in_the_order_of_the_log(lines: list[str]) -> None:
    begun = [diagnostic.log_line for diagnostic in parse_diagnostics("\n".join(lines))]
    assert begun == sorted(begun)


def shown(text: str) -> int:
    """How often a line is shown to a parser."""
    return read(text, [parser() for parser in all_parsers()])


HOSTILE = [
    "Traceback (most recent call last):\n",
    'Traceback (most recent call last):\n  File "a.py", line 1, in f\n',
    "error: ",
    "a.c:1:2: error: \n",
    "a.cu(1): error: x\n",
    '[{"kind"',
    '[{"kind"\n',
    "{\n",
    '"',
    "at 4:24:\n",
    "AssertionError: \n",
    "numba.core.errors.TypingError: \n",
    "==1==ERROR: AddressSanitizer: x\n",
    "Fatal Python error: x\n",
    "terminate called \n",
    "CMake Error:\n",
    *(f"{line}\n" for line in REAL["triton_all"].splitlines()),
]


@pytest.mark.parametrize("shape", HOSTILE)
def test_work_grows_with_the_length_and_no_faster(shape: str) -> None:
    one, ten = shown(shape * 200), shown(shape * 2000)
    assert ten <= 10 * one + 100
    assert ten <= len(all_parsers()) * (2000 * shape.count("\n") + 1)


@pytest.mark.parametrize("name", ALL)
def test_most_lines_are_shown_to_few_parsers(name: str) -> None:
    lines = ALL[name].count("\n") + 1
    assert shown(ALL[name]) <= 4 * lines


def test_of_a_long_line_only_the_beginning_is_looked_at() -> None:
    assert parse_diagnostics("x" * 5000 + "\na.c:1:2: error: y") != ()
    assert parse_diagnostics("x" * 5000 + " a.c:1:2: error: y") == ()
    message = parse_diagnostics("a.c:1:2: error: " + "y" * 1_000_000)[0].message
    assert len(message) < 2000


def test_figures_that_are_none_are_no_trouble() -> None:
    (mismatch,) = parse_diagnostics(
        "Not equal to tolerance rtol=0.., atol=1e-05\nMismatched elements: 0 / 0 (nan%)\n"
    )
    assert mismatch.figures["atol"] == 1e-05
    assert "share" not in mismatch.figures


def test_a_long_chain_of_exceptions_is_one_chain() -> None:
    link = "\nThe above exception was the direct cause of the following exception:\n\n"
    found = parse_diagnostics(link.join(["Traceback (most recent call last):\nValueError: x\n"] * 500))
    assert [diagnostic.consequence for diagnostic in found] == [False] + [True] * 499


def test_json_in_one_long_line_is_read_whole() -> None:
    many = REAL["gcc_json"].strip().removeprefix("[").removesuffix("]")
    assert len(parse_diagnostics("[" + ", ".join([many] * 200) + "]")) == 1000


def test_json_that_is_cut_gives_its_whole_elements() -> None:
    assert len(parse_diagnostics(REAL["gcc_json"][:1000])) == 2


def test_json_nested_too_deep_gives_nothing() -> None:
    assert parse_diagnostics('[{"kind": "error", "message": ' + "[" * 100_000) == ()
