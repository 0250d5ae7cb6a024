"""What the assembler says of entry functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_kernel_trace.resources import KernelResources, parse_resources

LOGS = Path(__file__).parent / "logs"

EXPECTED = {
    "nvcc_ptxas_v": (
        KernelResources(
            entry="_Z10mla_kernelILi128EEvPfPji",
            arch="sm_90",
            registers=10,
            spill_stores=0,
            spill_loads=0,
            stack_frame=0,
            barriers=0,
            compile_time=0.023219,
        ),
    ),
    "nvcc_spill": (
        KernelResources(
            entry="_Z5spillPKfPf",
            arch="sm_90",
            registers=32,
            spill_stores=384,
            spill_loads=496,
            stack_frame=280,
            barriers=0,
            compile_time=0.026253,
        ),
    ),
    "triton_all": (
        KernelResources(
            entry="good",
            arch="sm_90a",
            registers=10,
            spill_stores=0,
            spill_loads=0,
            stack_frame=0,
            barriers=0,
            compile_time=0.004281,
        ),
    ),
}

TWO_ARCHITECTURES = """\
ptxas info    : 0 bytes gmem, 56 bytes cmem[4]
ptxas info    : Compiling entry function '_Z3addPf' for 'sm_80'
ptxas info    : Function properties for _Z3addPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0], 4 bytes cmem[2]
ptxas info    : Function properties for _Z6helperf
    32 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Compiling entry function '_Z3addPf' for 'sm_90'
ptxas info    : Function properties for _Z3addPf
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, 6144 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 1.5 s
"""


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_every_log_gives_exactly_its_entry_functions(path: Path) -> None:
    assert parse_resources(path.read_bytes().decode()) == EXPECTED.get(path.stem, ())


def test_each_architecture_is_told_apart_and_device_functions_are_no_entries() -> None:
    assert parse_resources(TWO_ARCHITECTURES) == (
        KernelResources(
            entry="_Z3addPf",
            arch="sm_80",
            registers=14,
            spill_stores=0,
            spill_loads=0,
            stack_frame=0,
            shared_memory=1024,
            constant_memory=404,
            barriers=1,
        ),
        KernelResources(
            entry="_Z3addPf",
            arch="sm_90",
            registers=40,
            spill_stores=4,
            spill_loads=8,
            stack_frame=16,
            shared_memory=6144,
            constant_memory=400,
            compile_time=1.5,
        ),
    )


def test_lines_of_others_in_between_change_nothing() -> None:
    mixed = "".join(f"{line}\na.c:1:2: warning: x\n" for line in TWO_ARCHITECTURES.splitlines())
    assert parse_resources(mixed) == parse_resources(TWO_ARCHITECTURES)


@pytest.mark.parametrize("prefix", ["[rank0]: ", "2026-11-20 10:00:00 INFO ", "\x1b[32m"])
def test_what_stands_before_and_behind_a_line_changes_nothing(prefix: str) -> None:
    dressed = "".join(f"{prefix}{line}\r\n" for line in TWO_ARCHITECTURES.splitlines())
    assert parse_resources(dressed) == parse_resources(TWO_ARCHITECTURES)


def test_a_log_that_is_cut_tells_what_it_told_till_then() -> None:
    whole = parse_resources(TWO_ARCHITECTURES)
    for end in range(len(TWO_ARCHITECTURES)):
        found = parse_resources(TWO_ARCHITECTURES[:end])
        assert found[:-1] == whole[: max(len(found) - 1, 0)]


def test_figures_without_an_entry_function_are_nobodys() -> None:
    assert parse_resources("ptxas info    : Used 10 registers, used 0 barriers\n") == ()


@given(
    st.lists(st.sampled_from(TWO_ARCHITECTURES.splitlines()) | st.text(max_size=30), max_size=30).map(
        "\n".join
    )
)
@settings(max_examples=100, deadline=None)
def test_whatever_comes_there_is_an_answer(text: str) -> None:
    assert len(parse_resources(text)) == text.count("Compiling entry function")
