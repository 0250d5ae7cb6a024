"""What readers tell of stages: from the index, nested, with their shares, before and after."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

from otel_kernel_trace import KernelTracer, KernelTraceSpanExporter, configure
from otel_kernel_trace.actions import Agent
from otel_kernel_trace.diagnostics import Diagnostic
from otel_kernel_trace.diagnostics.telling import tell_resources
from otel_kernel_trace.indexed import Passed, spans_of
from otel_kernel_trace.reader import (
    Action,
    Bar,
    ModelCall,
    Outcome,
    PlacedStage,
    Spent,
    Stage,
    Summary,
    Task,
    Tokens,
    Tree,
    actions_around,
    bars_of,
    changes_of,
    placed_stages,
    spent,
)
from otel_kernel_trace.reader.lines import Line, LineReader, _line_of
from otel_kernel_trace.reader.stages import difference_of, is_compiling, share_of
from otel_kernel_trace.resources import KernelResources
from otel_kernel_trace.transfer import export_jsonl, import_file, merge

_SUMMARY = Summary(
    "o", "1", Outcome.PASSED, 0, 0, 0, 0, None, None, Tokens(), None, None, 1000, 0, "", 0, None
)


def _provider(log_dir: Path) -> TracerProvider:
    return configure(log_dir, tracer_provider=TracerProvider(shutdown_on_exit=False))


def _run(log_dir: Path) -> None:
    """A task with stages in a verification, of its own, and a command that fails."""
    provider = _provider(log_dir)
    with KernelTracer("swish", "1", provider) as tracer:
        with tracer.verifier() as check:
            with tracer.stage("compile", input="source") as stage:
                with tracer.stage("lower"):
                    pass
                stage.output(b"binary")
                stage.span.set_attribute("kernel_trace.builder.fusion_rate", 0.5)
                stage.span.add_event("kernel_trace.builder", {"kernel_trace.builder.kind": "fusion"})
                tell_resources(stage.span, _RESOURCES)
            tracer.run(["sh", "-c", "yes out | head -c 9999; echo Segmentation fault >&2; exit 3"], name="x")
            check.record(False, "log")
        with tracer.stage("after"):
            pass
    provider.shutdown()


_RESOURCES = [KernelResources(f"entry_{number}" * 10, "sm_90", registers=number) for number in range(100)]
"""So many that they are no short text."""


def _stage(number: int, start: int | None, end: int | None, parent: object = "", name: str = "s") -> Stage:
    return Stage(name, start, end, "t", f"s{number}", str(parent))


def _action(step: int, start: int, end: int, agent: Agent = Agent.VERIFIER) -> Action:
    kind = "VERIFY" if agent is Agent.VERIFIER else "DO_CODER"
    return Action("o", "1", step, kind, agent, start=start, end=end, trace_id="t", span_id=str(step))


def _task(*stages: Stage, actions: tuple[Action, ...] = (), calls: tuple[ModelCall, ...] = ()) -> Task:
    return Task(_SUMMARY, actions, calls, (), stages)


class TestIndex:
    def test_a_task_has_its_stages_and_they_are_no_roots_and_no_actions(self, tmp_path: Path) -> None:
        _run(tmp_path)
        task = Tree(tmp_path).task("swish", "1")
        assert len(task.actions) == 1
        assert len(task.runs) == 1
        assert task.summary.outcome is Outcome.FAILED
        assert [stage.name for stage in task.stages] == ["compile", "lower", "x", "after"]
        compile_, lower, command, after = task.stages
        assert compile_.parent_id == task.actions[0].span_id
        assert lower.parent_id == compile_.span_id
        assert (compile_.input_size, compile_.output_size) == (6, 6)
        assert compile_.builder == {"fusion_rate": 0.5}
        assert compile_.builder_lines == ({"kind": "fusion"},)
        assert compile_.resources == tuple(_RESOURCES)
        assert compile_.cpu_time is not None
        assert command.command[:2] == ("sh", "-c")
        assert (command.exit_code, command.error) == (3, "exit status 3")
        assert [one.category for one in command.diagnostics] == ["crash"]
        assert after.parent_id not in {stage.span_id for stage in task.stages}

    def test_their_texts_can_be_read(self, tmp_path: Path) -> None:
        _run(tmp_path)
        tree = Tree(tmp_path)
        outputs = tree.task("swish", "1").stages[2].outputs
        assert tree.text(outputs["stdout"]) == ("out\n" * 2500)[:9999]
        assert tree.text(outputs["stderr"]) == "Segmentation fault\n"
        assert outputs["stdout"].path.endswith(".texts")

    def test_of_one_task_they_are_found_alone(self, tmp_path: Path) -> None:
        _run(tmp_path)
        assert Tree(tmp_path, only=("swish", "1")).task("swish", "1") == Tree(tmp_path).task("swish", "1")

    def test_a_task_that_has_stages_alone_is_unfinished_until_its_root_ends(self, tmp_path: Path) -> None:
        provider = _provider(tmp_path)
        tracer = KernelTracer("o", "1", provider)
        with tracer.stage("s"):
            pass
        [summary] = Tree(tmp_path).summaries()
        assert (summary.outcome, summary.actions) == (Outcome.UNFINISHED, 0)
        assert summary.wall_time is not None
        tracer.close()
        assert Tree(tmp_path).summaries()[0].outcome is Outcome.UNVERIFIED
        provider.shutdown()

    def test_lines_seen_as_bytes_say_what_their_json_does(self, tmp_path: Path) -> None:
        _run(tmp_path)
        [shard] = (tmp_path / ".kernel_trace/index").glob("*.jsonl")
        reader = LineReader(Passed())
        seen = []
        for line in shard.read_bytes().splitlines(keepends=True):
            if reader.begun(line) is None:
                assert list(reader.read(line)) == [_line_of(span) for span in spans_of(line, Passed())]
                seen += [one.is_stage for one in reader.read(line) if isinstance(one, Line)]
        assert sorted(seen) == [False, False, True, True, True, True]

    def test_those_that_others_write_are_known_too(self, tmp_path: Path) -> None:
        _run(tmp_path)
        before = Tree(tmp_path).task("swish", "1")
        [shard] = (tmp_path / ".kernel_trace/index").glob("*.jsonl")
        lines = [json.loads(line) for line in shard.read_text().splitlines()]
        for line in lines:
            [span] = line["resourceSpans"][0]["scopeSpans"][0]["spans"]
            span["attributes"].reverse()
        shard.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert Tree(tmp_path).task("swish", "1").stages == before.stages

    def test_they_survive_export_import_and_merge(self, tmp_path: Path) -> None:
        _run(tmp_path / "tree")
        before = Tree(tmp_path / "tree").task("swish", "1")
        with (tmp_path / "lines").open("w+b") as file:
            export_jsonl(str(tmp_path / "tree"), file)
            file.seek(0)
            import_file(file, KernelTraceSpanExporter(tmp_path / "imported"))
        merge([str(tmp_path / "tree")], KernelTraceSpanExporter(tmp_path / "merged"))
        for name in ("imported", "merged"):
            tree = Tree(tmp_path / name)
            after = tree.task("swish", "1")
            assert [_without_places(stage) for stage in after.stages] == [
                _without_places(stage) for stage in before.stages
            ]
            assert tree.text(after.stages[2].outputs["stdout"]) == ("out\n" * 2500)[:9999]

    def test_one_that_a_forked_child_ended_too_is_one(self, tmp_path: Path) -> None:
        _run(tmp_path)
        [shard] = (tmp_path / ".kernel_trace/index").glob("*.jsonl")
        shutil.copy(shard, shard.with_name("0.jsonl"))
        assert len(Tree(tmp_path).task("swish", "1").stages) == 4


def _without_places(stage: Stage) -> Stage:
    return replace(stage, outputs={})


class TestNesting:
    def test_each_has_its_place_its_action_and_its_share(self) -> None:
        task = _task(
            _stage(1, 0, 400, 1, "compile"),
            _stage(2, 0, 100, "s1", "lower"),
            _stage(3, 100, 300, "s1", "assemble"),
            _stage(4, 500, 750, "", "report"),
            actions=(_action(1, 0, 500),),
        )
        told = [
            (one.path, one.depth, one.action.step if one.action else None, one.share)
            for one in placed_stages(task)
        ]
        assert told == [
            (("compile",), 0, 1, 0.8),
            (("compile", "lower"), 1, 1, 0.25),
            (("compile", "assemble"), 1, 1, 0.5),
            (("report",), 0, None, 0.25),
        ]

    def test_of_a_step_there_are_those_of_its_actions(self) -> None:
        task = _task(_stage(1, 0, 1, 1), _stage(2, 0, 1, 2), actions=(_action(1, 0, 5), _action(2, 5, 9)))
        assert [one.stage.span_id for one in placed_stages(task, 2)] == ["s2"]

    def test_shares_of_what_took_no_time_or_has_none_are_not_made_up(self) -> None:
        task = _task(_stage(1, 5, 5, 1), _stage(2, 5, 6, 2), actions=(_action(1, 5, 5),))
        assert [one.share for one in placed_stages(task)] == [None, 0.001]
        assert placed_stages(_task(_stage(1, 5, None)))[0].share is None

    @given(st.lists(st.integers(0, 8), max_size=9))
    def test_whatever_is_inside_whatever_each_comes_once(self, parents: list[int]) -> None:
        stages = [_stage(number, 0, 1, f"s{parent}") for number, parent in enumerate(parents)]
        placed = placed_stages(_task(*stages))
        assert sorted(one.stage.span_id for one in placed) == [stage.span_id for stage in stages]

    def test_a_hundred_thousand_deep_is_no_trouble(self) -> None:
        count = 100_000
        stages = [_stage(number, 0, 1, f"s{number - 1}" if number else 1) for number in range(count)]
        placed = placed_stages(_task(*stages, actions=(_action(1, 0, 1),)))
        assert all(one.action for one in placed)

    def test_what_a_stage_asked_of_a_model_is_its_actions(self) -> None:
        call = ModelCall("chat", 1, 2, "m", None, "", "t", "c", "s2")
        task = _task(_stage(1, 0, 4, 3), _stage(2, 0, 4, "s1"), actions=(_action(3, 0, 5),), calls=(call,))
        assert {key: action.step for key, action in actions_around(task).items()} == {
            ("t", "3"): 3,
            ("t", "s1"): 3,
            ("t", "s2"): 3,
        }
        assert Bar("m", "model", 1, 2, False, 3) in bars_of(task)


class TestTime:
    def test_compiling_is_what_stages_inside_actions_took_and_no_model(self) -> None:
        call = ModelCall("chat", 10, 20, "m", None, "", "t", "c", "1")
        task = _task(
            _stage(1, 0, 30, 1, "compile"),
            _stage(2, 5, 25, "s1"),
            _stage(3, 60, 70, 2, "lower_to_ttir"),
            _stage(4, 35, 45, 1, "compare"),
            actions=(_action(1, 0, 50), _action(2, 50, 100, Agent.CODER)),
            calls=(call,),
        )
        assert spent(task) == Spent(model=10, compile=30, verify=20, unaccounted=40)
        assert spent(task).total == 100

    def test_a_stage_around_actions_takes_what_they_leave(self) -> None:
        task = _task(
            _stage(1, 0, 100, "", "build"), _stage(2, 30, 35, 1, "ptxas"), actions=(_action(1, 20, 40),)
        )
        assert spent(replace(task, runs=((0, 120),))) == Spent(compile=85, verify=15, waiting=20)

    @pytest.mark.parametrize(
        ("name", "command", "is_so"),
        [
            ("compile", (), True),
            ("lower_to_ttgir", (), True),
            ("Build engine", (), True),
            ("step 2", ("/opt/cuda/bin/nvcc", "-c"), True),
            ("step 2", ("g++-12", "-c"), True),
            ("compare", ("python", "compare.py"), False),
            ("linked list", (), False),
            ("run", (), False),
        ],
    )
    def test_what_compiles_is_known_by_its_name_or_program(
        self, name: str, command: tuple[str, ...], is_so: bool
    ) -> None:
        assert is_compiling(replace(_stage(1, 0, 1, 1, name), command=command)) is is_so

    def test_another_stage_outside_of_actions_is_unaccounted(self) -> None:
        task = _task(_stage(1, 0, 100, "", "autotune"), actions=(_action(1, 20, 40),))
        assert spent(task) == Spent(verify=20, unaccounted=80)

    def test_stages_are_bars_of_their_steps(self) -> None:
        failed = replace(_stage(2, 2, 3, "s1", "lower"), error="exit status 1")
        task = _task(_stage(1, 1, 4, 7, "compile"), failed, _stage(3, 5, None), actions=(_action(7, 0, 9),))
        assert bars_of(task) == [
            Bar("VERIFY", "action", 0, 9, False, 7),
            Bar("compile", "stage", 1, 4, False, 7),
            Bar("lower", "stage", 2, 3, True, 7),
        ]


class TestChanges:
    def test_stages_of_a_path_are_taken_together(self) -> None:
        one = replace(_stage(1, 0, 10), cpu_time=1.0, peak_memory=5, input_size=3, error="no")
        other = replace(_stage(2, 20, 25), cpu_time=0.5, output_size=1)
        [change] = changes_of([], placed_stages(_task(one, other)))
        assert change.before is None
        assert change.after is not None
        assert (change.after.count, change.after.failed, change.after.wall_time) == (2, 1, 15)
        assert (change.after.cpu_time, change.after.peak_memory) == (1.5, 5)
        # Of one of them it is not known.
        assert (change.after.input_size, change.after.output_size) == (None, None)

    def test_new_ones_follow_what_they_come_behind(self) -> None:
        def named(*names: str) -> list[PlacedStage]:
            return placed_stages(_task(*(_stage(at, at, at + 1, "", name) for at, name in enumerate(names))))

        changes = changes_of(named("a", "b", "c"), named("x", "a", "y", "z", "c"))
        assert [change.path for change in changes] == [("x",), ("a",), ("y",), ("z",), ("b",), ("c",)]
        assert [change.after is None for change in changes] == [False, False, False, False, True, False]

    def test_differences_are_computed_and_nothing_is_divided_by_nothing(self) -> None:
        assert (difference_of(4, 3), share_of(-1, 4)) == (-1, -0.25)
        assert (difference_of(None, 3), share_of(1, 0), share_of(None, 4), share_of(1, None)) == (None,) * 4


def test_a_diagnostic_of_a_strangers_index_costs_nobody_anything(tmp_path: Path) -> None:
    _run(tmp_path)
    [shard] = (tmp_path / ".kernel_trace/index").glob("*.jsonl")
    shard.write_text(
        shard.read_text()
        .replace('"doubleValue":', '"stringValue":')
        .replace('{"intValue":"3"}', '{"boolValue":true}')
        .replace('"stringValue":"crash"', '"stringValue":"doom"')
        .replace("kernel_trace.resources.size", "kernel_trace.resources.x")
    )
    task = Tree(tmp_path).task("swish", "1")
    assert [stage.exit_code for stage in task.stages] == [None] * 4
    assert [stage.cpu_time for stage in task.stages] == [None] * 4
    assert task.stages[2].diagnostics[0].category == "other"
    assert isinstance(task.stages[2].diagnostics[0], Diagnostic)
    assert task.stages[0].resources == ()
