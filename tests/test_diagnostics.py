"""Whole logs in, whole diagnostics out."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from otel_kernel_trace.diagnostics import CATEGORIES, Diagnostic, counts, first_error, parse_diagnostics
from otel_kernel_trace.diagnostics.parsers import all_parsers

LOGS = sorted((Path(__file__).parent / "logs").rglob("*.log"))


def log(name: str) -> str:
    """One of the logs, with its line ends."""
    return (Path(__file__).parent / "logs" / f"{name}.log").read_bytes().decode()


def as_json(diagnostic: Diagnostic) -> dict[str, object]:
    """A diagnostic as the expected values have it: what the log does not tell is left out."""
    told = {
        field.name: getattr(diagnostic, field.name)
        for field in dataclasses.fields(diagnostic)
        if getattr(diagnostic, field.name) not in (None, "", (), {}, False)
    }
    return json.loads(json.dumps(told, default=dict))  # type: ignore[no-any-return]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_log_gives_exactly_what_stands_beside_it(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    found = parse_diagnostics(path.read_bytes().decode())
    assert [as_json(diagnostic) for diagnostic in found] == expected["diagnostics"]
    first = first_error(found)
    assert (first and first.log_line) == expected["first_error"]


def test_every_category_of_a_log_is_one_of_the_list() -> None:
    found = {
        diagnostic.category for path in LOGS for diagnostic in parse_diagnostics(path.read_bytes().decode())
    }
    assert found <= set(CATEGORIES)
    assert found >= {"syntax", "undefined_name", "type", "shape", "resource", "numeric_mismatch"}
    assert found >= {"crash", "timeout", "out_of_memory", "environment", "other"}


def test_the_error_of_the_flashinfer_story() -> None:
    error = first_error(parse_diagnostics(log("nvcc_undefined_identifier")))
    assert error is not None
    assert (error.tool, error.category, error.identifier) == ("nvcc", "undefined_name", "entry")
    assert (error.file, error.line, error.column) == ("mla.cu", 10, 19)


def test_json_and_text_of_the_same_compiler_have_the_same_signatures() -> None:
    text = parse_diagnostics(log("gcc_utf8_many"))
    as_array = parse_diagnostics(log("gcc_json"))
    places = [(each.file, each.line, each.column, each.code, each.identifier) for each in text]
    assert places == [(each.file, each.line, each.column, each.code, each.identifier) for each in as_array]
    assert [each.signature for each in text] == [each.signature for each in as_array]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            '/tmp/a1/k.cu(3): error: identifier "x" is undefined',
            '/tmp/b2/k.cu(9): error: identifier "x" is undefined',
        ),
        ("a.c:1:2: error: ‘x’ undeclared", "b.c:3:4: error: 'x' undeclared"),
        (
            "nvlink error   : Undefined reference to '_Z1f' in '/tmp/tmpxft_1_0-1_d.o'",
            "nvlink error   : Undefined reference to '_Z1f' in '/tmp/tmpxft_2_0-9_d.o'",
        ),
        (
            "==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x1",
            "==22==ERROR: AddressSanitizer: heap-use-after-free on address 0x88 at pc 0x2",
        ),
        (
            'loc("/tmp/x/k.mlir":2:3): error: ub overflow, requires 10 bits while 8 bits avaliable!',
            'loc("/tmp/y/k.mlir":9:3): error: ub overflow, requires 20 bits while 8 bits avaliable!',
        ),
    ],
)
def test_a_signature_is_the_same_in_another_run(one: str, other: str) -> None:
    first, second = parse_diagnostics(one), parse_diagnostics(other)
    assert len(first) == len(second) == 1
    assert first[0].signature == second[0].signature


def test_a_signature_keeps_tool_category_and_names() -> None:
    signatures = {
        diagnostic.signature
        for text in (
            "a.c:1:2: error: 'conv2d' undeclared",
            "a.c:1:2: error: 'conv3d' undeclared",
            'a.cu(1): error: identifier "conv2d" is undefined',
        )
        for diagnostic in parse_diagnostics(text)
    }
    assert len(signatures) == 3


def test_what_a_compiler_says_twice_is_counted_twice() -> None:
    found = parse_diagnostics(log("nvcc_ptxas_v"))
    assert counts(found) == (0, 4)
    assert first_error(found) is None


def test_where_everything_is_a_consequence_the_first_is_taken() -> None:
    text = "FAILED: a.o\nninja: build stopped: subcommand failed.\n"
    error = first_error(parse_diagnostics(text))
    assert error is not None
    assert error.message == "FAILED: a.o"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n\n",
        "no error was found",
        "0 errors, 0 warnings generated",
        "error: none",
        '    raise RuntimeError("CUDA out of memory")',
        "    log.error('Segmentation fault')",
        "10:30:45: error: connection lost",
        "int error(int warning); // note: fine",
        "ptxas info    : Used 10 registers, used 0 barriers",
        "[11/20/2026-10:00:00] [TRT] [I] Total Activation Memory: 0 bytes",
        "[V] [TRT] error: 3",
        "exit code 0",
        "Command returned non-zero exit status 1",
        "epoch 3: error: 0.25",
    ],
)
def test_text_that_reports_nothing_gives_nothing(text: str) -> None:
    assert parse_diagnostics(text) == ()


@pytest.mark.parametrize(
    "prefix", ["[rank0]: ", "2026-11-20 10:00:00,123 ERROR ", "(EngineCore pid=12) ", "E       "]
)
def test_what_a_logger_puts_in_front_hides_nothing(prefix: str) -> None:
    lines = log("nvcc_undefined_identifier").splitlines(keepends=True)
    found = parse_diagnostics("".join(prefix + line for line in lines))
    assert found == parse_diagnostics("".join(lines))


def test_windows_line_ends_hide_nothing() -> None:
    for path in LOGS:
        text = path.read_bytes().decode().replace("\r\n", "\n")
        assert parse_diagnostics(text.replace("\n", "\r\n")) == parse_diagnostics(text)


def test_every_file_of_the_folder_is_in_use() -> None:
    folder = Path(sys.modules[all_parsers.__module__].__file__ or "").parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {parser.__module__.rpartition(".")[2] for parser in all_parsers()} == files


def test_importing_the_package_imports_no_parser() -> None:
    program = "import sys, otel_kernel_trace.diagnostics; print([m for m in sys.modules if '.parsers.' in m])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
@pytest.mark.parametrize("options", [[], ["-fdiagnostics-format=json"], ["-fdiagnostics-color=always"]])
def test_a_real_compiler_is_understood(tmp_path: Path, options: list[str]) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text("int main() {\n  int unused;\n  return scale * 2;\n}\n")
    ran = subprocess.run(
        ["g++", "-Wall", "-c", *options, "kernel.cpp", "-o", "kernel.o"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = parse_diagnostics(ran.stderr + ran.stdout)
    error = first_error(found)
    assert error is not None
    assert (error.tool, error.category, error.identifier) == ("gcc", "undefined_name", "scale")
    assert (error.file, error.line, error.column) == ("kernel.cpp", 3, 10)
    assert [each.code for each in found if each.severity == "warning"] == ["-Wunused-variable"]


SHORT_LOGS = {
    "a program without main": (
        "/usr/bin/ld: /usr/lib/x86_64-linux-gnu/Scrt1.o: in function `_start':\n"
        "(.text+0x17): undefined reference to `main'\ncollect2: error: ld returned 1 exit status\n",
        ("ld", "undefined_name", None, None, "main"),
    ),
    "gold": (
        "/tmp/ccTXzNnG.o:link.cpp:function main: error: undefined reference to 'foo(int)'\n",
        ("ld", "undefined_name", "link.cpp", None, "foo(int)"),
    ),
    "the assembler": (
        "asm.cpp: Assembler messages:\nasm.cpp:1: Error: no such instruction: `bogus_instr %eax'\n",
        ("as", "syntax", "asm.cpp", 1, None),
    ),
    "a compiler without memory": (
        "cc1plus: out of memory allocating 65536 bytes after a total of 123456 bytes\n",
        ("gcc", "out_of_memory", None, None, None),
    ),
    "a function's name behind what it returns": (
        "a.cpp:1:24: error: redefinition of 'int f()'\n",
        ("gcc", "other", "a.cpp", 1, "f"),
    ),
    "too few arguments": (
        "a.cpp:1:44: error: too few arguments to function 'void g(int, int*)'\n",
        ("gcc", "type", "a.cpp", 1, "g"),
    ),
    "bash": ("run.sh: line 3: nvcc: command not found\n", ("shell", "environment", None, None, "nvcc")),
    "dash": ("/bin/sh: 1: nvcc: not found\n", ("shell", "environment", None, None, "nvcc")),
    "an architecture that ptxas does not know": (
        "ptxas fatal   : Value 'sm_100a' is not defined for option 'gpu-name'\n",
        ("ptxas", "environment", None, None, "gpu-name"),
    ),
    "the CUDA samples' check": (
        'CUDA error at main.cu:45 code=700(cudaErrorIllegalAddress) "cudaDeviceSynchronize()" \n',
        ("cuda", "crash", "main.cu", 45, None),
    ),
    "the check that everybody copies": (
        "GPUassert: an illegal memory access was encountered main.cu 45\n",
        ("cuda", "crash", "main.cu", 45, None),
    ),
    "TensorRT without memory": (
        "[11/20/2025-10:10:11] [E] Error[2]: [virtualMemoryBuffer.cpp::resizePhysical::140] Error Code 2: "
        "OutOfMemory (no further information)\n",
        ("tensorrt", "out_of_memory", "virtualMemoryBuffer.cpp", 140, None),
    ),
    "a C++ program without memory": (
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n",
        ("c++", "out_of_memory", None, None, None),
    ),
    "a data race": (
        "WARNING: ThreadSanitizer: data race (pid=5060)\n  Read of size 4 at 0x556cb16fd054 by thread T2:\n"
        "    #0 f /w/race.c:2 (race+0x11d0)\n\n  Previous write of size 4 at 0x556cb16fd054 by thread T1:\n",
        ("tsan", "crash", "/w/race.c", 2, None),
    ),
    "a worker that was killed": (
        'Traceback (most recent call last):\n  File "a.py", line 6, in <module>\n    pool.submit(w)\n'
        "concurrent.futures.process.BrokenProcessPool: "
        "A process in the process pool was terminated abruptly while the future was running or pending.\n",
        ("python", "crash", "a.py", 6, None),
    ),
    "a jitted function that calls another": (
        "numba.core.errors.TypingError: Failed in nopython mode pipeline (step: nopython frontend)\n"
        "Failed in nopython mode pipeline (step: nopython frontend)\n"
        "NameError: name 'undefd' is not defined\nDuring: Pass nopython_type_inference\n\n"
        'File "nb.py", line 6:\n',
        ("numba", "undefined_name", "nb.py", 6, "undefd"),
    ),
    "Triton that names only the cause": (
        'Traceback (most recent call last):\n  File "t.py", line 3, in arange\n'
        "ValueError: arange's range must be a power of 2\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "t.py", line 30, in <module>\n'
        "triton.compiler.errors.CompilationError: at 3:11:\ndef k(x, N: tl.constexpr):\n"
        "    o = tl.arange(0, N)\n           ^\n",
        ("triton", "shape", None, 3, None),
    ),
    "a stack of TVM's inside Python's": (
        'Traceback (most recent call last):\n  File "t.py", line 40, in <module>\n    compile(f)\n'
        '  File "/tilelang/src/layout_inference.cc", line 210, in tvm::tl::LayoutInferencer::run()\n'
        "tvm.error.InternalError: Traceback (most recent call last):\n  0: tvm::tl::LayoutInferencer::run()\n"
        "        at /tilelang/src/layout_inference.cc:210\n"
        "InternalError: Check failed: (0) is false: Layout infer conflict between A_shared and B\n",
        ("python", "other", "t.py", 40, None),
    ),
    "what wraps Inductor's compiler": (
        "torch._inductor.exc.InductorError: CppCompileError: C++ compile error\n\nOutput:\n"
        "/tmp/cabc.cpp:2:10: fatal error: omp.h: No such file or directory\n",
        ("gcc", "environment", "/tmp/cabc.cpp", 2, "omp.h"),
    ),
    "pytest's short tracebacks": (
        "t.py:8: in test_c\n    undefined_x\nE   NameError: name 'undefined_x' is not defined\n",
        ("python", "undefined_name", "t.py", 8, "undefined_x"),
    ),
    "an assertion without a message, by pytest": (
        ">       assert a == b\nE       assert [1, 2] == [1, 3]\nE         \n\nt.py:5: AssertionError\n",
        ("python", "other", "t.py", 5, None),
    ),
    "a file that pytest can't read": (
        'E     File "/w/t.py", line 1\nE       def f(:\nE             ^\nE   SyntaxError: invalid syntax\n',
        ("python", "syntax", "/w/t.py", 1, None),
    ),
}


@pytest.mark.parametrize("name", SHORT_LOGS)
def test_the_first_error_of_a_short_log(name: str) -> None:
    text, expected = SHORT_LOGS[name]
    error = first_error(parse_diagnostics(text))
    assert error is not None
    assert (error.tool, error.category, error.file, error.line, error.identifier) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Mismatched elements: 0 / 100 (0%)\n",
        "CUDA error: no error\n",
        "terminate called 0 times\n",
        "dataset: 12: item: not found\n",
    ],
)
def test_what_only_looks_like_an_error_gives_nothing(text: str) -> None:
    assert parse_diagnostics(text) == ()


def test_a_number_before_a_comma_does_not_change_a_signature() -> None:
    one, other = (
        parse_diagnostics(f"AssertionError: \nNot equal to tolerance rtol={rtol}, atol=0\n")[0]
        for rtol in ("0.001", "1e-07")
    )
    assert one.signature == other.signature
