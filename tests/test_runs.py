"""Commands as stages."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import KernelTracer
from otel_kernel_trace.diagnostics.telling import diagnostics_in
from tests.spans import provider_of

_needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not there")


@pytest.fixture
def seen() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(seen: InMemorySpanExporter) -> Iterator[TracerProvider]:
    with provider_of(seen) as provider:
        yield provider


@pytest.fixture
def tracer(provider: TracerProvider) -> Iterator[KernelTracer]:
    with KernelTracer("o", "1", provider) as tracer:
        yield tracer


def _span(seen: InMemorySpanExporter) -> ReadableSpan:
    [span] = [span for span in seen.get_finished_spans() if span.name != "kernel_task"]
    return span


def _given(seen: InMemorySpanExporter) -> Mapping[str, AttributeValue]:
    given = _span(seen).attributes
    assert given is not None
    return given


def test_a_command_that_succeeds(provider: TracerProvider, seen: InMemorySpanExporter) -> None:
    tracer = KernelTracer("o", "1", provider, level="debug")
    run = tracer.run(["sh", "-c", "cat; echo err >&2"], name="copy", input="gr\udcfc\n")
    assert (run.args, run.returncode, run.signal) == (("sh", "-c", "cat; echo err >&2"), 0, "")
    assert (run.stdout, run.stderr) == ("gr\udcfc\n", "err\n")
    assert run.duration > 0
    given = dict(_given(seen))
    assert given.pop("kernel_trace.stage.cpu_time") is not None
    assert given.pop("kernel_trace.stage.children_cpu_time") is not None
    given.pop("kernel_trace.stage.peak_memory", None)
    assert given == {
        "kernel_trace.op_name": "o",
        "kernel_trace.task_id": "1",
        "kernel_trace.stage": "copy",
        "process.command_args": ("sh", "-c", "cat; echo err >&2"),
        "process.exit.code": 0,
        "kernel_trace.stage.stdout": "gr\\xfc\n",
        "kernel_trace.stage.stderr": "err\n",
        "kernel_trace.stage.input_size": 4,
    }
    assert _span(seen).status.status_code is StatusCode.UNSET


def test_an_exit_status_makes_the_span_an_error(tracer: KernelTracer, seen: InMemorySpanExporter) -> None:
    assert tracer.run(["sh", "-c", "exit 3"]).returncode == 3
    assert _given(seen)["process.exit.code"] == 3
    assert _span(seen).status.status_code is StatusCode.ERROR
    assert _span(seen).status.description == "exit status 3"
    assert _span(seen).name == "sh"


@pytest.mark.parametrize("name", ["SEGV", "ABRT", "KILL"])
def test_a_signal_is_a_crash(name: str, tracer: KernelTracer, seen: InMemorySpanExporter) -> None:
    run = tracer.run(["sh", "-c", f"kill -{name} $$"])
    assert run.signal == f"SIG{name}"
    assert "process.exit.code" not in _given(seen)
    assert _given(seen)["kernel_trace.stage.signal"] == f"SIG{name}"
    assert _given(seen)["kernel_trace.diagnostic.category"] == "crash"
    assert _span(seen).status.description == f"killed by SIG{name}"
    assert diagnostics_in(_span(seen).events) == run.diagnostics


def test_a_timeout_is_told_and_not_raised(tracer: KernelTracer, seen: InMemorySpanExporter) -> None:
    run = tracer.run(["sh", "-c", "echo begun; sleep 100"], timeout=0.5)
    assert run.is_timed_out
    assert run.stdout == "begun\n"
    [diagnostic] = run.diagnostics
    assert (diagnostic.category, diagnostic.severity) == ("timeout", "error")
    assert diagnostic.message == "timed out after 0.5 s"
    assert _given(seen)["kernel_trace.diagnostic.category"] == "timeout"
    assert _span(seen).status.description == "timed out after 0.5 s"


def test_a_program_that_is_not_there_is_an_error_as_of_subprocess(
    tracer: KernelTracer, seen: InMemorySpanExporter
) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-compiler"):
        tracer.run(["no-such-compiler", "-c"])
    assert _span(seen).status.status_code is StatusCode.ERROR
    assert [event.name for event in _span(seen).events] == ["exception"]
    assert _given(seen)["process.command_args"] == ("no-such-compiler", "-c")


def test_what_is_no_list_of_words_is_refused_and_no_stage(
    tracer: KernelTracer, seen: InMemorySpanExporter
) -> None:
    with pytest.raises(TypeError, match="args is a list of words"):
        tracer.run("gcc -c a.c")
    with pytest.raises(ValueError, match="args is empty"):
        tracer.run([])
    assert [span.name for span in seen.get_finished_spans()] in ([], ["kernel_task"])


def test_where_it_runs_and_with_what_environment(
    tmp_path: Path, tracer: KernelTracer, seen: InMemorySpanExporter
) -> None:
    secret = {"TOKEN": "s3cret", "PATH": os.environ["PATH"]}
    assert tracer.run(["sh", "-c", "pwd; echo ${#TOKEN}"], cwd=tmp_path, env=secret).stdout == (
        f"{tmp_path}\n6\n"
    )
    assert "s3cret" not in repr(dict(_given(seen)))


def test_bytes_and_paths_are_words_too(tracer: KernelTracer, seen: InMemorySpanExporter) -> None:
    run = tracer.run([b"echo", Path("a"), b"\xff"])
    assert run.args == ("echo", "a", "\udcff")
    assert run.stdout == "a \udcff\n"
    assert _given(seen)["process.command_args"] == ("echo", "a", "\\xff")


def test_any_text_can_be_read_by_a_command(tracer: KernelTracer) -> None:
    assert tracer.run(["cat"], input="\ud800\udcff").stdout == "\\ud800\\udcff"


def test_of_a_long_output_both_ends_are_looked_at(tracer: KernelTracer) -> None:
    script = "cat; head -c 20000000 /dev/zero; echo; echo 'a.c:9:1: error: ‘last’ undeclared'"
    run = tracer.run(["sh", "-c", script], input="a.c:1:1: error: ‘first’ undeclared\n")
    assert [one.identifier for one in run.diagnostics] == ["first", "last"]


def test_of_an_output_without_end_the_span_says_what_is_missing(
    tracer: KernelTracer, seen: InMemorySpanExporter
) -> None:
    run = tracer.run(["sh", "-c", "head -c 100000000 /dev/zero"])
    assert run.returncode == 0
    assert len(run.stdout) < 40_000_000
    incomplete = str(_given(seen)["kernel_trace.incomplete"])
    assert incomplete.startswith("stdout: ")
    assert incomplete.endswith(" bytes of its middle were not kept")


def test_the_macros_in_force_are_told(
    tracer: KernelTracer, seen: InMemorySpanExporter, tmp_path: Path
) -> None:
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o700)
    env = {"NVCC_APPEND_FLAGS": "-DFLASHINFER_ENABLE_PROFILER", "PATH": os.environ["PATH"]}
    run = tracer.run([nvcc, "-DX=1", "-DY", "-UY", "a.cu"], env=env)
    assert run.macros == ("X=1", "FLASHINFER_ENABLE_PROFILER")
    assert _given(seen)["kernel_trace.stage.macros"] == ("X=1", "FLASHINFER_ENABLE_PROFILER")


def test_without_an_sdk_the_command_runs_all_the_same() -> None:
    run = KernelTracer("o", "1").run(["sh", "-c", "echo out; exit 2"])
    assert (run.stdout, run.returncode) == ("out\n", 2)


def test_commands_run_at_once_in_asyncio(tracer: KernelTracer, seen: InMemorySpanExporter) -> None:
    async def main() -> list[str]:
        with tracer.stage("all"):
            words = [["echo", str(number)] for number in range(5)]
            runs = await asyncio.gather(*(asyncio.to_thread(tracer.run, word) for word in words))
            return [run.stdout for run in runs]

    assert asyncio.run(main()) == [f"{number}\n" for number in range(5)]
    spans = {span.name: span for span in seen.get_finished_spans()}
    assert spans["echo"].parent is not None
    assert spans["all"].context is not None
    assert spans["echo"].parent.span_id == spans["all"].context.span_id


@_needs_gcc
def test_a_compiler_that_refuses_a_kernel(tracer: KernelTracer, seen: InMemorySpanExporter) -> None:
    source = "#ifdef PROFILE\nvoid f(void) { record(entry); }\n#endif\nint g;\n"
    good = tracer.run(["gcc", "-c", "-x", "c", "-", "-o", os.devnull], input=source)
    assert good.returncode == 0
    seen.clear()
    bad = tracer.run(["gcc", "-DPROFILE", "-c", "-x", "c", "-", "-o", os.devnull], input=source)
    assert bad.returncode == 1
    assert "entry" in bad.stderr
    assert bad.macros == ("PROFILE",)
    assert _given(seen)["kernel_trace.stage.stderr"] == bad.stderr
    error = bad.diagnostics[-1]
    assert (error.tool, error.category, error.identifier) == ("gcc", "undefined_name", "entry")
    assert (error.file, error.line) == ("<stdin>", 2)
    assert diagnostics_in(_span(seen).events) == bad.diagnostics
    assert _given(seen)["kernel_trace.diagnostic.identifier"] == "entry"
