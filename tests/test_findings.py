"""From a log to the span, the index, the commands and the page: what the compiler said, everywhere."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_kernel_trace import KernelTracer, KernelTraceSpanExporter, Trace, configure, examination
from otel_kernel_trace.diagnostics.telling import diagnostics_in
from otel_kernel_trace.findings import findings_in
from otel_kernel_trace.reader import Action, Outcome, Tree, compare, recurrences
from tests.spans import action_span
from tests.test_reading import _json, _run

LOGS = Path(__file__).with_name("logs")
UNDEFINED = (LOGS / "nvcc_undefined_identifier.log").read_text()
SPILLS = (LOGS / "nvcc_spill.log").read_text()
MISMATCH = (LOGS / "numpy_mismatch.log").read_text()

FIRST_ERROR = {
    "kernel_trace.diagnostic.tool": "nvcc",
    "kernel_trace.diagnostic.severity": "error",
    "kernel_trace.diagnostic.category": "undefined_name",
    "kernel_trace.diagnostic.file": "mla.cu",
    "kernel_trace.diagnostic.line": 10,
    "kernel_trace.diagnostic.identifier": "entry",
    "kernel_trace.diagnostic.errors": 1,
    "kernel_trace.diagnostic.warnings": 2,
}


def _verify(log_dir: Path, *logs: str, task_id: str = "1") -> list[ReadableSpan]:
    """A task with a failed verification for each log; what another exporter got."""
    provider = configure(log_dir, tracer_provider=TracerProvider(shutdown_on_exit=False))
    others = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(others))
    with KernelTracer("mla", task_id, provider) as tracer:
        for log in logs:
            with tracer.coder(prompt="write it") as code:
                code.record("kernel")
            with tracer.verifier() as check:
                check.record(False, log)
    provider.shutdown()
    return [span for span in others.get_finished_spans() if span.name == "VERIFY"]


def _trace(log_dir: Path, log: str) -> None:
    Trace("mla", "1", log_dir).insert_verifier_record("False", log, "")


def _by_hand(log_dir: Path, log: str) -> None:
    exporter = KernelTraceSpanExporter(log_dir)
    more = {"kernel_trace.verify.result": "False"}
    exporter.export([action_span("VERIFY", op_name="mla", step=1, parts={"error_log": log}, more=more)])


def _tracer(log_dir: Path, log: str) -> None:
    _verify(log_dir, log)


def _actions(log_dir: Path) -> list[Action]:
    return [action for action in Tree(log_dir).task("mla", "1").actions if action.action_type == "VERIFY"]


def _subset(given: Mapping[str, object] | None, names: Mapping[str, object]) -> dict[str, object]:
    return {name: (given or {}).get(name) for name in names}


def test_every_exporter_gets_the_first_error_and_an_event_for_each(tmp_path: Path) -> None:
    (span,) = _verify(tmp_path, UNDEFINED)
    assert _subset(span.attributes, FIRST_ERROR) == FIRST_ERROR
    assert [event.name for event in span.events] == ["kernel_trace.diagnostic"] * 3
    assert [one.severity for one in diagnostics_in(span.events)] == ["error", "warning", "warning"]


@pytest.mark.parametrize("record", [_tracer, _trace, _by_hand])
def test_the_tree_tells_them_whoever_made_the_span(
    tmp_path: Path, record: Callable[[Path, str], None]
) -> None:
    record(tmp_path, UNDEFINED)
    (action,) = _actions(tmp_path)
    assert [(one.tool, one.severity, one.file, one.line) for one in action.diagnostics] == [
        ("nvcc", "error", "mla.cu", 10),
        ("nvcc", "warning", "mla.cu", 15),
        ("nvcc", "warning", "mla.cu", 15),
    ]
    assert Tree(tmp_path).text(action.parts["error_log"]) == UNDEFINED


@pytest.mark.parametrize("record", [_tracer, _trace, _by_hand])
def test_without_an_index_they_are_found_in_the_log(
    tmp_path: Path, record: Callable[[Path, str], None]
) -> None:
    record(tmp_path, UNDEFINED)
    shutil.rmtree(tmp_path / ".kernel_trace")
    (action,) = _actions(tmp_path)
    assert action.diagnostics[0].category == "undefined_name"


def test_a_log_that_no_parser_knows_is_whole_and_tells_its_first_bad_line(tmp_path: Path) -> None:
    (span,) = _verify(tmp_path, "starting\nthe device says: failure 7\n")
    assert span.events == ()
    assert not any(name.startswith("kernel_trace.diagnostic") for name in span.attributes or {})
    (task,) = _json("ls", tmp_path)["tasks"]
    assert task["first_error"] == "the device says: failure 7"


def test_an_exception_in_an_action_is_a_diagnostic(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    tracer = KernelTracer("mla", "1", provider)
    with pytest.raises(ZeroDivisionError), tracer.verifier():
        print(1 // 0)
    tracer.close()
    (action,) = _actions(tmp_path)
    (told,) = action.diagnostics
    assert (told.tool, told.code) == ("python", "ZeroDivisionError")
    assert told.file is not None
    assert told.file.endswith("test_findings.py")


def test_resources_of_kernels_come_from_any_log_of_a_verifier(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    with KernelTracer("mla", "1", provider) as tracer, tracer.verifier() as check:
        check.record(True, compile_log=SPILLS)
    (action,) = _actions(tmp_path)
    (kernel,) = action.resources
    assert (kernel.arch, kernel.registers, kernel.spill_stores, kernel.spill_loads) == ("sm_90", 32, 384, 496)
    assert "registers 32" in _run("show", tmp_path, "mla")


class TestTheSameErrorAgain:
    def test_is_told_with_its_steps(self, tmp_path: Path) -> None:
        moved = UNDEFINED.replace("mla.cu(10)", "/tmp/build_7f3a/mla.cu(12)")
        _verify(tmp_path, UNDEFINED, MISMATCH, moved, UNDEFINED)
        actions = Tree(tmp_path).task("mla", "1").actions
        again = recurrences(actions)
        assert {step: found.steps for (step, _, _), found in again.items()} == {6: (2,), 8: (2, 6)}
        story = _run("show", tmp_path, "mla")
        assert "the same error as in steps 2, 6" in story

    def test_three_in_a_row_are_a_stall(self, tmp_path: Path) -> None:
        _verify(tmp_path, MISMATCH, UNDEFINED, UNDEFINED, UNDEFINED)
        (summary,) = Tree(tmp_path).summaries()
        assert (summary.outcome, summary.stalled) == (Outcome.FAILED, 3)
        assert "stalled: 3 attempts, same error" in _run("ls", tmp_path)
        assert "stalled: the last 3 attempts" in _run("show", tmp_path, "mla")

    def test_another_error_or_a_pass_ends_it(self, tmp_path: Path) -> None:
        _verify(tmp_path, UNDEFINED, UNDEFINED, MISMATCH)
        (summary,) = Tree(tmp_path).summaries()
        assert summary.stalled == 1
        assert [number for _, number in summary.errors] == [2, 1]

    def test_trees_are_compared_by_them(self, tmp_path: Path) -> None:
        _verify(tmp_path / "before", UNDEFINED, UNDEFINED)
        _verify(tmp_path / "after", MISMATCH)
        (op,) = compare(*(Tree(tmp_path / side).summaries() for side in ("before", "after")))
        assert [(before, after) for _, before, after in op.errors] == [(2, 0), (0, 1)]
        said = _run("compare", tmp_path / "before", tmp_path / "after")
        assert "2 -> 0" in said
        assert "0 -> 1" in said


def test_programs_get_all_of_it(tmp_path: Path) -> None:
    _verify(tmp_path, UNDEFINED)
    actions = _json("show", tmp_path, "mla")["task"]["actions"]
    (check,) = [one for one in actions if one["action_type"] == "VERIFY"]
    assert check["diagnostics"][0]["identifier"] == "entry"
    assert check["diagnostics"][0]["headline"].startswith("mla.cu:10:")


def test_export_and_import_keep_them(tmp_path: Path) -> None:
    _verify(tmp_path / "a", UNDEFINED)
    (tmp_path / "lines.jsonl").write_text(_run("export", tmp_path / "a", "--jsonl"))
    _run("import", tmp_path / "lines.jsonl", "--log-dir", tmp_path / "b")
    assert _actions(tmp_path / "b")[0].diagnostics == _actions(tmp_path / "a")[0].diagnostics


def test_of_a_huge_log_both_ends_are_looked_at_and_lines_keep_their_numbers() -> None:
    filling = "compiling, please wait\n" * 200_000
    log = UNDEFINED + filling + MISMATCH
    found = findings_in({"kernel_trace.part.error_log": log})
    assert found is not None
    lines = {
        event["kernel_trace.diagnostic.tool"]: event["kernel_trace.diagnostic.log_line"]
        for event in found.events
    }
    assert set(lines) == {"nvcc", "numpy"}
    number = lines["numpy"]
    assert isinstance(number, int)
    assert 200_000 < number <= len(log.splitlines())


def test_a_parser_that_breaks_costs_its_diagnostics_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(log: str) -> None:
        raise RuntimeError("a parser's own fault")

    monkeypatch.setattr(examination, "parse_diagnostics", broken)
    _by_hand(tmp_path, UNDEFINED)
    assert "a parser's own fault" in caplog.text
    assert next(tmp_path.rglob("*error_log.txt")).read_text() == UNDEFINED


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")
def test_a_broken_kernel_is_followed_from_the_compiler_to_the_page(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text("void scale(float* x, int n) {\n  for (int i = 0; i < n; ++i) x[i] *= factor;\n}\n")
    compiler = ["g++", "-c", str(source), "-o", "/dev/null"]
    said = subprocess.run(compiler, capture_output=True, text=True, check=False)
    log_dir = tmp_path / "tree"
    _verify(log_dir, said.stderr)
    (action,) = _actions(log_dir)
    (told,) = action.diagnostics
    assert (told.category, told.identifier, told.line) == ("undefined_name", "factor", 2)
    pytest.importorskip("jinja2")
    page = tmp_path / "page.html"
    _run("report", log_dir, "-o", page)
    assert "factor" in json.dumps(page.read_text())


class TestWhatAVerificationIsWorth:
    def test_a_number_without_a_method_is_shown_as_such(self, tmp_path: Path) -> None:
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        with KernelTracer("mla", "1", provider) as tracer:
            with tracer.verifier() as check:
                check.record(True, profile={"base_time_ms": 3.0, "gen_time_ms": 2.0, "speedup": 2.5})
        (action,) = _actions(tmp_path)
        assert action.assessment is not None
        assert action.assessment.correctness.passed is True
        assert action.assessment.measurement.method is None
        story = _run("show", tmp_path, "mla")
        assert "reference 3 ms, kernel 2 ms, 2.5x; method not stated" in story
        assert "the two times make 1.5x" in story
        told = _json("show", tmp_path, "mla")["task"]["actions"][0]["assessment"]
        assert told["measurement"]["generated_time"] == 0.002
        assert told["measurement"]["method"] is None

    def test_what_to_distrust_is_told_everywhere(self, tmp_path: Path) -> None:
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        kernel = "import torch\n\ndef kernel(x):\n    return torch.softmax(x, -1)\n"
        with KernelTracer("mla", "1", provider) as tracer:
            with tracer.verifier(framework="torch", impl_type="triton") as check:
                check.record(True, implementation=kernel, profile='{"speedup": 1.2}')
        (action,) = _actions(tmp_path)
        assert [(one.kind, one.line) for one in action.suspicions]
        assert "look at this" in _run("show", tmp_path, "mla")
        assert _json("show", tmp_path, "mla")["task"]["actions"][0]["suspicions"][0]["reason"]

    def test_nobody_distrusts_what_failed(self) -> None:
        given = {"kernel_trace.verify.result": "False", "kernel_trace.verify.profile": '{"gen_time_us": 0}'}
        assert findings_in(given) is None
