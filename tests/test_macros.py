"""Macros that are in force for a command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from otel_kernel_trace.stages.macros import macros_in


@pytest.mark.parametrize(
    ("line", "macros"),
    [
        ("gcc -DX a.c", ("X",)),
        ("gcc -D X a.c", ("X",)),
        ("gcc -DX=1 -D Y=2 a.c", ("X=1", "Y=2")),
        ("gcc -DX=1 -DX=2 a.c", ("X=2",)),
        ("gcc -DX -UX a.c", ()),
        ("gcc -DX -U X a.c", ()),
        ("gcc -UX -DX a.c", ("X",)),
        ("gcc -DF(a,b)=a -UF a.c", ()),
        ("gcc -DX= a.c", ("X=",)),
        ("gcc -Wp,-DX=1,-DY,-UX a.c", ("Y",)),
        ("nvcc --define-macro X=1 --define-macro=Y a.cu", ("X=1", "Y")),
        ("nvcc -DX --undefine-macro=X a.cu", ()),
        ("nvcc -Xcompiler -DHOST -DX a.cu", ("X",)),
        ("/usr/local/cuda/bin/nvcc -DFLASHINFER_ENABLE_PROFILER a.cu", ("FLASHINFER_ENABLE_PROFILER",)),
        ("ccache x86_64-linux-gnu-g++-12 -DX a.cc", ("X",)),
        ("clang++-18 -DX a.cc", ("X",)),
        ("gcc -o -DX a.c", ()),
        ("gcc a.c -D", ()),
        # Not every -D is a macro's.
        ("cmake -DCMAKE_BUILD_TYPE=Release .", ()),
        ("java -Dx=1 Main", ()),
        ("sh -c gcc -DX a.c", ()),
        ("ninja", ()),
    ],
)
def test_of_a_command_line(line: str, macros: tuple[str, ...]) -> None:
    assert macros_in(line.split(), {}) == macros


def test_nvcc_takes_flags_from_the_environment_and_in_its_order() -> None:
    env = {"NVCC_PREPEND_FLAGS": "-DX=1 -DY=1", "NVCC_APPEND_FLAGS": "-UY -D 'Z=a b'", "CFLAGS": "-DC"}
    assert macros_in(["nvcc", "-DX=2", "-DY=2"], env) == ("X=2", "Z=a b")
    assert macros_in(["gcc", "-DX=2", "-DY=2"], env) == ("X=2", "Y=2")


def test_files_of_options_are_read_in_their_places(tmp_path: Path) -> None:
    (tmp_path / "flags").write_text('-DX=1\n"-DY=a b" @more\n')
    (tmp_path / "more").write_text("-DZ -UX")
    assert macros_in(["gcc", "-DX", "@flags", "-DW"], {}, tmp_path) == ("Y=a b", "Z", "W")
    for option in (["--options-file", "flags,more"], ["-optf=flags"]):
        assert macros_in(["nvcc", *option], {}, tmp_path) == ("Y=a b", "Z")


def test_files_that_are_none_circles_and_pipes_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "self").write_text("-DX @self")
    (tmp_path / "bad").write_bytes(b"-DY '\xff")
    os.mkfifo(tmp_path / "pipe")
    args = ["gcc", "@missing", "@pipe", "@.", "@self", "@bad", "@a\0b", "-DZ"]
    assert macros_in(args, {}, tmp_path) == ("X", "Y", "Z")


def test_of_nothing_there_are_none() -> None:
    assert macros_in([], {}) == ()
    assert macros_in(["ccache"], {}) == ()
