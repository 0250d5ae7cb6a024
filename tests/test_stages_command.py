"""``otel-kernel-trace stages``: what stages took, and what became of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

from otel_kernel_trace import KernelTracer, configure
from otel_kernel_trace.otlp import line_of, spans_in
from tests.test_reading import HOSTILE, _json, _run

_SECOND = 1_000_000_000


def _tree(
    log_dir: Path, task_id: str = "1", *, scale: int = 1, names: tuple[str, ...] = ("ttir", "ptx")
) -> Path:
    """A task of two verifications, with stages of these names inside another."""
    provider = configure(log_dir, tracer_provider=TracerProvider(shutdown_on_exit=False))
    tracer = KernelTracer("swish", task_id, provider)
    for _ in range(2):
        with tracer.verifier() as check:
            with tracer.stage("compile", input=1000 * scale) as compile_:
                for name in names:
                    with tracer.stage(name) as stage:
                        stage.output(500 // scale)
                compile_.output(0)
            check.record(True)
    tracer.close()
    provider.shutdown()
    return log_dir


def _retimed(log_dir: Path, seconds: float) -> Path:
    """The tree with every stage and action lasting so many seconds."""
    for shard in (log_dir / ".kernel_trace/index").glob("*.jsonl"):
        lines = []
        for line in shard.read_bytes().splitlines():
            for span in spans_in(json.loads(line)):
                assert span is not None
                if span.end_time:
                    span._end_time = (span.start_time or 0) + round(seconds * _SECOND)
                lines.append(line_of(span, span.attributes or {}))
        shard.write_bytes(b"".join(lines))
    return log_dir


def test_a_line_for_each_stage(tmp_path: Path) -> None:
    head, *rows, last = _run("stages", _retimed(_tree(tmp_path), 2), "swish").splitlines()
    assert head.split("  ")[0] == "STAGE"
    assert [row[:7].rstrip() for row in rows] == ["compile", "  ttir", "  ptx"] * 2
    assert [row.split()[1:6] for row in rows[:2]] == [
        ["1", "2", "s", "100", "%"],
        ["1", "2", "s", "100", "%"],
    ]
    assert "1 kB" in rows[0]
    assert "500 B" in rows[1]
    assert last.startswith("Shares are of the stage around it")


def test_of_a_step(tmp_path: Path) -> None:
    _, *rows, _ = _run("stages", _tree(tmp_path), "swish", 1, 2).splitlines()
    assert [row.split()[1] for row in rows] == ["2", "2", "2"]


def test_how_a_command_ended(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    with KernelTracer("swish", "1", provider) as tracer:
        tracer.run(["sh", "-c", "exit 3"])
        tracer.run(["sh", "-c", "kill -SEGV $$"])
        tracer.run(["sleep", "10"], timeout=0.1)
        with pytest.raises(FileNotFoundError):
            tracer.run(["no-such-program"])
        tracer.run(["true"])
    _, *rows, _ = _run("stages", tmp_path, "swish").splitlines()
    assert "exit 3" in rows[0]
    assert "SIGSEGV" in rows[1]
    assert "timed out after 0.1 s" in rows[2]
    assert "FileNotFoundError" in rows[3]
    assert "exit 0" in rows[4]
    assert len(rows) == 5


def test_what_became_of_them_since_another_tree(tmp_path: Path) -> None:
    before = _retimed(_tree(tmp_path / "before"), 4)
    after = _retimed(_tree(tmp_path / "after", scale=2, names=("ttir", "cubin")), 1)
    lines = _run("stages", after, "swish", "--before", before).splitlines()
    told = {}
    stage = ""
    for line in lines[1:]:
        stage = line[:9].strip() or stage
        figure, *numbers = [cell for cell in line[9:].split("  ") if cell]
        told[stage, figure.strip()] = [number.strip() for number in numbers]
    # Of two verifications together.
    assert told["compile", "times"] == ["2", "2", "0", "+0.0 %"]
    assert told["compile", "wall time"] == ["8 s", "2 s", "-6 s", "-75.0 %"]
    assert told["compile", "in"] == ["2 kB", "4 kB", "+2 kB", "+100.0 %"]
    assert told["compile", "out"] == ["0 B", "0 B", "0 B", "-"]
    assert told["ttir", "out"] == ["1 kB", "500 B", "-500 B", "-50.0 %"]
    assert told["ptx", "wall time"] == ["8 s", "-", "-", "-"]
    assert told["cubin", "wall time"] == ["-", "2 s", "-", "-"]


def test_what_became_of_them_since_another_step_or_task(tmp_path: Path) -> None:
    _tree(tmp_path)
    _tree(tmp_path, "2")
    for options in (["--before-step", 1], ["--before-task", 2], ["--before-task", 2, "--before-step", 1]):
        found = _json("stages", tmp_path, "swish", 1, 2, *options)
        assert [change["path"] for change in found["changes"]] == [
            ["compile"],
            ["compile", "ttir"],
            ["compile", "ptx"],
        ]
        assert {change["before"]["count"] for change in found["changes"]} == {1}


def test_for_programs(tmp_path: Path) -> None:
    before, after = _retimed(_tree(tmp_path / "b"), 4), _retimed(_tree(tmp_path / "a"), 1)
    found = _json("stages", after, "swish", 1, 1)
    assert found["schema"] == "otel-kernel-trace.stages.v1"
    first = found["stages"][0]
    assert (first["path"], first["step"], first["action_type"]) == (["compile"], 1, "VERIFY")
    assert (first["wall_time_nano"], first["share"], first["input_bytes"]) == (_SECOND, 1.0, 1000)
    assert [stage["name"] for stage in _json("show", after, "swish")["task"]["stages"]][:2] == [
        "compile",
        "ttir",
    ]
    compared = _json("stages", after, "swish", "--before", before)
    assert compared["before_log_dir"] == str(before)
    change = compared["changes"][0]
    assert change["difference"]["wall_time_nano"] == -6 * _SECOND
    assert change["change"]["wall_time_nano"] == -0.75
    assert change["change"]["output_bytes"] is None
    assert compared["changes"][1]["difference"]["input_bytes"] is None


def test_show_tells_the_stages_of_an_action(tmp_path: Path) -> None:
    said = _run("show", _tree(tmp_path), "swish")
    assert "\n  stage compile: " in said
    assert "\n    stage ttir: " in said


def test_where_there_are_none_that_is_told(tmp_path: Path) -> None:
    _tree(tmp_path)
    assert "step 9 of task '1' in " in _run("stages", tmp_path, "swish", 1, 9, status=1)
    assert "has no stages" in _run("stages", tmp_path, "swish", 1, 9, status=1)
    assert "there is no op 'gelu'" in _run("stages", tmp_path, "gelu", status=1)


def test_names_of_strangers_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    with KernelTracer("swish", "1", provider) as tracer, tracer.stage(HOSTILE):
        pass
    for said in (
        _run("stages", tmp_path, "swish"),
        _run("stages", tmp_path, "swish", "--before", tmp_path),
    ):
        assert "\x1b" not in said
        assert "\u202e" not in said


def test_a_task_that_has_stages_alone_is_shown(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    with KernelTracer("o", "1", provider) as tracer, tracer.stage("autotune"):
        pass
    said = _run("show", tmp_path, "o")
    assert "outside of all actions" in said
    assert "stage autotune" in said


def test_what_a_trace_holds_makes_no_lines_of_an_errors_own(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    with KernelTracer("o\n::error file=x::y", "1", provider) as tracer, tracer.coder():
        pass
    said = _run("show", tmp_path, "p", status=1)
    assert len(said.splitlines()) == 1
    assert "\\n::error" in said
