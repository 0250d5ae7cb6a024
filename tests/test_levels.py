"""How much is written of each component."""

from __future__ import annotations

import asyncio
import io
import logging
import multiprocessing
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry import trace as trace_api
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import (
    ActionType,
    KernelTracer,
    KernelTraceSpanExporter,
    LinkedSpanExporter,
    Trace,
    TracingLogger,
    configure,
    levels,
)
from otel_kernel_trace.indexed import Passed, indexed_spans
from otel_kernel_trace.leveled import action_at_level
from otel_kernel_trace.levels import LEVEL_VARIABLE, PRESETS, Level, Levels, parse, read_levels
from otel_kernel_trace.reader import Tree
from otel_kernel_trace.record import attributes_of, read_record
from otel_kernel_trace.stages.stage import stage
from otel_kernel_trace.store import Store
from otel_kernel_trace.transfer import export_jsonl, import_file
from tests.spans import action_span, provider_of
from tests.tree import tree

OFF, ERROR, WARN, INFO, DEBUG = Level

# --- Directives ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "default", "by_name"),
    [
        ("", INFO, {}),
        (" , ,,", INFO, {}),
        ("off", OFF, {}),
        ("error", ERROR, {}),
        ("warn", WARN, {}),
        ("info", INFO, {}),
        ("debug", DEBUG, {}),
        ("  WaRn\t", WARN, {}),
        ("warning", WARN, {}),
        ("trace", DEBUG, {}),
        ("verbose", DEBUG, {}),
        ("warn,error", ERROR, {}),
        ("info,verifier=debug,designer=off", INFO, {"verifier": DEBUG, "designer": OFF}),
        (" info , Verifier = DEBUG ", INFO, {"verifier": DEBUG}),
        ("verifier=debug,info", INFO, {"verifier": DEBUG}),
        ("verifier=debug,verifier=off", INFO, {"verifier": OFF}),
        ("error,verifier", ERROR, {"verifier": DEBUG}),
        ("error,verifier=", ERROR, {"verifier": DEBUG}),
        ("kernel_gen=off", INFO, {"kernel_gen": OFF}),
        ("my agent=warn", INFO, {"my agent": WARN}),
        ("info=off", INFO, {"info": OFF}),
        ("development", DEBUG, {}),
        ("production", INFO, {}),
        ("Serving", WARN, {}),
        ("serving,verifier=info", WARN, {"verifier": INFO}),
    ],
)
def test_a_directive_is_read_as_in_the_manner_of_env_logger(
    text: str, default: Level, by_name: dict[str, Level]
) -> None:
    assert parse(text) == (Levels(default, by_name), ())


@pytest.mark.parametrize(
    "bad", ["verifier=loud", "=debug", "=", "a=b=c", "a=info=warn", "a\nb", "verifier=serving", "\x1b[1m"]
)
def test_a_bad_directive_is_told_and_the_others_count(bad: str) -> None:
    assert parse(f"warn,{bad},coder=off") == (Levels(WARN, {"coder": OFF}), (bad,))


@given(st.text() | st.text("=,  offinfodebugverifier\ud800\0"))
@example("=" * 1000)
@example("," * 100_000)
def test_any_text_is_read(text: str) -> None:
    found, bad = parse(text)
    assert found.default in Level
    assert all(level in Level for level in found.by_name.values())
    assert all(directive in text for directive in bad)


@given(st.lists(st.tuples(st.sampled_from(["coder", "verifier", "mine"]), st.sampled_from(list(Level)))))
def test_the_last_directive_for_a_component_counts(directives: list[tuple[str, Level]]) -> None:
    found, bad = parse(",".join(f"{name}={level.name}" for name, level in directives))
    assert not bad
    assert found.by_name == dict(directives)


def test_what_is_more_specific_counts_first() -> None:
    found, _ = parse("error,FIX_CODER=debug,coder=warn,Kernel_Gen=off")
    assert found.of_action("FIX_CODER") is DEBUG
    assert found.of_action("DO_CODER") is WARN
    assert found.of_action("kernel_gen") is OFF
    assert found.of_action("VERIFY") is ERROR
    assert found.of("stage", "FIX_CODER", "coder") is DEBUG
    assert parse("error,stage=info,coder=debug")[0].of("stage", "DO_CODER", "coder") is INFO


def test_the_environment_sets_what_no_argument_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_levels(None) == Levels()
    assert levels.enabled("stage", INFO)
    assert not levels.enabled("stage", DEBUG)
    monkeypatch.setenv(LEVEL_VARIABLE, "warn,builder=debug")
    assert read_levels(None) == Levels(WARN, {"builder": DEBUG})
    assert levels.enabled("builder", DEBUG)
    assert not levels.enabled("stage", INFO, "VERIFY", "verifier")
    assert read_levels("off") == Levels(OFF)


def test_a_bad_directive_in_the_environment_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(LEVEL_VARIABLE, "coder=noisy,verifier=off")
    for _ in range(3):
        assert read_levels(None) == Levels(INFO, {"verifier": OFF})
    [line] = caplog.records
    assert line.levelno == logging.ERROR
    assert "'coder=noisy'" in line.getMessage()


@pytest.mark.parametrize("level", ["coder=noisy", "=", "info,a=b=c"])
@pytest.mark.parametrize(
    "make",
    [
        lambda path, level: KernelTracer("o", "1", level=level),
        lambda path, level: Trace("o", "1", path, level=level),
        lambda path, level: KernelTraceSpanExporter(path, level=level),
        lambda path, level: configure(path, tracer_provider=TracerProvider(), level=level),
    ],
)
def test_a_bad_argument_is_told_to_the_program(
    tmp_path: Path, make: Callable[[Path, str], object], level: str
) -> None:
    with pytest.raises(ValueError, match="level"):
        make(tmp_path, level)
    with pytest.raises(TypeError, match="level"):
        make(tmp_path, 3)  # type: ignore[arg-type]  # that is the point


# --- What each level writes ---------------------------------------------------------------------

# The table of the README: what there is in all, whose it is, and the level from which on it is written.
_FILES = {
    "o/I1_S01_o_DO_DESIGNER_prompt.txt": ("designer", INFO),
    "o/I1_S01_o_DO_DESIGNER_reasoning.txt": ("designer", INFO),
    "o/I1_S01_o_DO_DESIGNER_result.txt": ("designer", INFO),
    "o/conductor/I1_S01_o_CheckDesigner_prompt.txt": ("conductor", INFO),
    "o/conductor/I1_S01_o_CheckDesigner_reasoning.txt": ("conductor", INFO),
    "o/conductor/I1_S01_o_CheckDesigner_result.txt": ("conductor", WARN),
    "o/I1_S02_o_DO_CODER_prompt.txt": ("coder", INFO),
    "o/I1_S02_o_DO_CODER_reasoning.txt": ("coder", INFO),
    "o/I1_S02_o_DO_CODER_result.txt": ("coder", INFO),
    "o/I1_S02_o_DO_CODER_plan.txt": ("coder", INFO),
    "o/I1_S03_o_VERIFY_error_log.txt": ("verifier", ERROR),
    "o/I1_S03_o_VERIFY_note.txt": ("verifier", INFO),
    "o/I1_S03_verify/o_numpy.py": ("verifier", ERROR),
    "o/I1_S03_verify/o_numba.py": ("verifier", ERROR),
    "o/I1_S03_verify/verify_o.py": ("verifier", ERROR),
    "o/conductor/I1_S03_o_AnalyzeError_prompt.txt": ("conductor", INFO),
    "o/conductor/I1_S03_o_AnalyzeError_result.txt": ("conductor", WARN),
    "o/I1_S04_o_FIX_CODER_prompt.txt": ("coder", INFO),
    "o/I1_S04_o_FIX_CODER_reasoning.txt": ("coder", INFO),
    "o/I1_S04_o_FIX_CODER_result.txt": ("coder", INFO),
    "o/I1_S04_o_FIX_CODER_error_log.txt": ("coder", ERROR),
    "o/I1_S05_o_VERIFY_error_log.txt": ("verifier", WARN),
    "o/I1_S05_verify/o_numpy.py": ("verifier", INFO),
    "o/I1_S05_verify/o_numba.py": ("verifier", INFO),
    "o/I1_S05_verify/verify_o.py": ("verifier", INFO),
    "o/I1_S06_o_kernel_gen_result.txt": ("kernel_gen", INFO),
    "o/I1_S07_o_kernel_gen_error_log.txt": ("kernel_gen", ERROR),
    "o/I1_S08_o_VERIFY_error_log.txt": ("verifier", ERROR),
}
_LINES = {
    ("DO_DESIGNER", 1): ("designer", INFO),
    ("CHECK_DESIGNER", 1): ("conductor", WARN),
    ("DO_CODER", 2): ("coder", INFO),
    ("VERIFY", 3): ("verifier", ERROR),
    ("ANALYZE_ERROR", 3): ("conductor", WARN),
    ("FIX_CODER", 4): ("coder", ERROR),
    ("VERIFY", 5): ("verifier", WARN),
    ("kernel_gen", 6): ("kernel_gen", INFO),
    ("kernel_gen", 7): ("kernel_gen", ERROR),
    ("VERIFY", 8): ("verifier", ERROR),
}
_SOURCES = {"reference": "r", "implementation": "i", "script": "s"}
_COMPONENTS = ("designer", "coder", "verifier", "conductor", "kernel_gen")


def _act(tracer: KernelTracer) -> list[int]:
    """A task with every kind of action, and every way in which one ends; gives their steps."""
    with tracer.designer(prompt="sketch") as design:
        design.record(result="a sketch", reasoning="hm")
    with tracer.conductor(prompt="right?") as check:
        check.record("yes", "it is")
    with tracer.coder(prompt="write") as code:
        code.record("code", "thought", plan="tiles")
    with tracer.verifier(framework="numpy", impl_type="numba") as failing:
        failing.record(False, "boom", {"speedup": 0.5}, note="n", **_SOURCES)
    with tracer.conductor(prompt="why?", judges=failing) as analysis:
        analysis.record("because")
    with (
        pytest.raises(OSError, match="no answer"),
        tracer.coder(prompt="mend", action_type=ActionType.FIX_CODER) as fix,
    ):
        raise OSError("no answer")
    with tracer.verifier(framework="numpy", impl_type="numba") as passing:
        passing.record(True, "a warning", {"speedup": 2}, **_SOURCES)
    with tracer.action("kernel_gen") as own:
        own.record("block 128")
    with tracer.action("kernel_gen", prompt="") as failed:
        failed.record(error_log="out of ideas")
    with pytest.raises(OSError, match="hung"), tracer.verifier() as hung:
        raise OSError("hung")
    actions = (design, code, failing, fix, passing, own, failed, hung)
    return [action.step for action in actions]


def _expected(level_of: Callable[[str], Level]) -> set[str]:
    return {path for path, (component, least) in _FILES.items() if level_of(component) >= least}


def _lines(log_dir: Path) -> dict[tuple[str, int], Mapping[str, AttributeValue]]:
    """Attributes of the actions that have ended in the index, by type and step."""
    found = {}
    for span in indexed_spans(Store(str(log_dir)), Passed()):
        told = attributes_of(span)
        if "kernel_trace.action_type" in told:
            step = told["kernel_trace.step"]
            assert isinstance(step, int)
            found[str(told["kernel_trace.action_type"]), step] = told
    return found


def _other_lines(log_dir: Path) -> list[ReadableSpan]:
    spans = indexed_spans(Store(str(log_dir)), Passed())
    return [span for span in spans if "kernel_trace.action_type" not in attributes_of(span)]


def _check(log_dir: Path, level_of: Callable[[str], Level]) -> None:
    written = tree(log_dir)
    # "prompt" is empty there and makes no file.
    assert set(written) == _expected(level_of)
    assert set(_lines(log_dir)) == {
        line for line, (component, least) in _LINES.items() if level_of(component) >= least
    }
    for (action_type, _), told in _lines(log_dir).items():
        level = level_of(levels.component_of(action_type))
        assert told.get("kernel_trace.level") == (level.name.lower() if level < INFO else None)
        if action_type == "VERIFY" and "kernel_trace.verify.profile" in told:
            assert "kernel_trace.verify.result" in told


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("component", _COMPONENTS)
class TestOneComponent:
    def test_of_a_tracer(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, component: str, level: Level
    ) -> None:
        monkeypatch.setenv(LEVEL_VARIABLE, f"info,{component}={level.name}")
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        with KernelTracer("o", "1", provider) as tracer:
            assert _act(tracer) == list(range(1, 9))
        provider.shutdown()
        _check(tmp_path, lambda name: level if name == component else INFO)

    def test_of_an_exporter_alone_with_spans_of_all_levels(
        self, tmp_path: Path, component: str, level: Level
    ) -> None:
        exporter = KernelTraceSpanExporter(tmp_path, level=f"{component}={level.name}")
        with provider_of(exporter) as provider, KernelTracer("o", "1", provider) as tracer:
            _act(tracer)
        _check(tmp_path, lambda name: level if name == component else INFO)
        assert exporter.counts.failed == 0
        assert exporter.counts.written == len(_lines(tmp_path))


@pytest.mark.parametrize("level", Level)
class TestAll:
    def test_of_a_tracer_whose_argument_it_is(self, tmp_path: Path, level: Level) -> None:
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        with KernelTracer("o", "1", provider, level=level.name) as tracer:
            assert _act(tracer) == list(range(1, 9))
        provider.shutdown()
        _check(tmp_path, lambda _: level)
        assert bool(_other_lines(tmp_path)) is (level is not OFF)

    def test_of_an_exporter_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: Level
    ) -> None:
        monkeypatch.setenv(LEVEL_VARIABLE, level.name)
        with provider_of(KernelTraceSpanExporter(tmp_path)) as provider:
            with KernelTracer("o", "1", provider) as tracer:
                _act(tracer)
        _check(tmp_path, lambda _: level)
        assert bool(_other_lines(tmp_path)) is (level >= WARN)

    def test_through_an_export_and_back(self, tmp_path: Path, level: Level) -> None:
        logs, copy = tmp_path / "logs", tmp_path / "copy"
        provider = configure(logs, tracer_provider=TracerProvider(shutdown_on_exit=False), level=level.name)
        with KernelTracer("o", "1", provider, level=level.name) as tracer:
            _act(tracer)
        exported = io.BytesIO()
        export_jsonl(str(logs), exported)
        exported.seek(0)
        import_file(exported, KernelTraceSpanExporter(copy))
        assert tree(copy) == tree(logs)

    def test_a_reader_tells_of_what_is_there(self, tmp_path: Path, level: Level) -> None:
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        with KernelTracer("o", "1", provider, level=level.name) as tracer:
            _act(tracer)
        if level is OFF:
            assert os.listdir(tmp_path) == []
            return

        [summary] = Tree(tmp_path).summaries()
        assert (summary.op_name, summary.task_id) == ("o", "1")
        steps = {step for (_, step), (_, least) in _LINES.items() if level >= least}
        assert {action.step for action in Tree(tmp_path).task("o", "1").actions} == steps


@pytest.mark.parametrize("layout", ["design", "aikg", "akg_agents"])
@pytest.mark.parametrize("level", [ERROR, WARN])
def test_in_every_layout_a_failed_action_below_info_has_its_error_log_alone(
    tmp_path: Path, layout: str, level: Level
) -> None:
    provider = configure(
        tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False), layout=layout, level=level.name
    )
    with KernelTracer("o", "1", provider) as tracer, pytest.raises(OSError, match="x"):
        with tracer.coder(prompt="p") as action:
            action.record("r", "t")
            raise OSError("x")
    [text] = tree(tmp_path).values()
    assert text.startswith("Traceback")
    assert text.endswith("OSError: x\n")


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("verdict", ["False", "no", "timeout"])
def test_the_log_of_a_failed_verification_is_kept_at_any_level_but_off(
    tmp_path: Path, level: Level, verdict: str
) -> None:
    Trace("o", "1", tmp_path / "trace", level=level.name).insert_verifier_record(verdict, "boom", "")
    exporter = KernelTraceSpanExporter(tmp_path / "hand", level=f"verifier={level.name}")
    by_hand = action_span("VERIFY", parts={"error_log": "boom"}, more={"kernel_trace.verify.result": verdict})
    exporter.export([by_hand])
    exporter.export([action_span("VERIFY", parts={"error_log": "no verdict"})])
    kept = {"o/I1_S01_o_VERIFY_error_log.txt": "boom"}
    assert tree(tmp_path / "trace") == ({} if level is OFF else kept)
    by_hand_kept = [] if level is OFF else ["boom", "no verdict"]
    assert sorted(tree(tmp_path / "hand").values()) == by_hand_kept


def test_a_verification_that_passed_before_it_raised_has_its_sources(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False), level="error")
    with KernelTracer("o", "1", provider, level="error") as tracer, pytest.raises(OSError, match="x"):
        with tracer.verifier() as check:
            check.record(True, implementation="i")
            raise OSError("x")
    assert tree(tmp_path)["o/I1_S01_verify/o_implementation.py"] == "i"


# --- Trace --------------------------------------------------------------------------------------


def _insert(trace: Trace) -> None:
    trace.insert_designer_or_coder_record("sketch", "p1", "t1", ActionType.DO_DESIGNER)
    trace.insert_conductor_record("yes", "q", "because", ActionType.DO_DESIGNER)
    trace.insert_designer_or_coder_record("code", "p2", "t2", ActionType.DO_CODER)
    trace.insert_conductor_record("fine", "", "", ActionType.DO_CODER)
    trace.insert_verifier_record("False", "boom", '{"a": 1}', implementation="i")
    trace.insert_verifier_record("True", "a warning", '{"a": 2}', implementation="i")


_OF_TRACE = {
    "o/I1_S01_o_DO_DESIGNER_prompt.txt": ("designer", INFO),
    "o/I1_S01_o_DO_DESIGNER_reasoning.txt": ("designer", INFO),
    "o/I1_S01_o_DO_DESIGNER_result.txt": ("designer", INFO),
    "o/conductor/I1_S01_o_CheckDesigner_prompt.txt": ("conductor", INFO),
    "o/conductor/I1_S01_o_CheckDesigner_reasoning.txt": ("conductor", INFO),
    "o/conductor/I1_S01_o_CheckDesigner_result.txt": ("conductor", WARN),
    "o/I1_S02_o_DO_CODER_prompt.txt": ("coder", INFO),
    "o/I1_S02_o_DO_CODER_reasoning.txt": ("coder", INFO),
    "o/I1_S02_o_DO_CODER_result.txt": ("coder", INFO),
    "o/conductor/I1_S02_o_CheckCoder_result.txt": ("conductor", WARN),
    "o/I1_S03_o_VERIFY_error_log.txt": ("verifier", ERROR),
    "o/I1_S03_verify/o_implementation.py": ("verifier", ERROR),
    "o/I1_S04_o_VERIFY_error_log.txt": ("verifier", WARN),
    "o/I1_S04_verify/o_implementation.py": ("verifier", INFO),
}


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("component", [*_COMPONENTS[:4], None])
@pytest.mark.parametrize("has_provider", [True, False])
def test_a_trace_writes_what_its_levels_say_and_lists_all(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    level: Level,
    component: str | None,
    has_provider: bool,
) -> None:
    shown = InMemorySpanExporter()
    if has_provider:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(shown))
        monkeypatch.setattr(trace_api, "get_tracer_provider", lambda: provider)
    monkeypatch.setenv(LEVEL_VARIABLE, f"{component}={level.name}" if component else level.name)
    trace = Trace("o", "1", tmp_path / "logs")
    _insert(trace)
    assert set(tree(tmp_path / "logs")) == {
        path
        for path, (whose, least) in _OF_TRACE.items()
        if (level if component in (whose, None) else INFO) >= least
    }
    assert (tmp_path / "logs").exists() is (component is not None or level is not OFF)
    assert [
        (r.action_type.name, r.result, r.prompt, r.reasoning, r.error_log, r.profile)
        for r in trace.trace_list
    ] == [
        ("DO_DESIGNER", "sketch", "p1", "t1", "", ""),
        ("DO_CODER", "code", "p2", "t2", "", ""),
        ("VERIFY", "False", "", "", "boom", '{"a": 1}'),
        ("VERIFY", "True", "", "", "a warning", '{"a": 2}'),
    ]
    assert trace.counts.failed == 0
    if has_provider and component == "conductor" and level < WARN:
        assert {span.name for span in shown.get_finished_spans()} == {"DO_DESIGNER", "DO_CODER", "VERIFY"}


def test_where_all_is_off_a_trace_needs_no_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    trace = Trace("o", "1", tmp_path / "file", level="off")
    _insert(trace)
    assert trace.trace_list[-1].error_log == "a warning"
    assert not caplog.records


def test_the_argument_comes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEVEL_VARIABLE, "off")
    _insert(Trace("o", "1", tmp_path, level="info"))
    assert set(tree(tmp_path)) == set(_OF_TRACE)
    provider = configure(tmp_path / "x", tracer_provider=TracerProvider(shutdown_on_exit=False), level="info")
    with KernelTracer("o", "1", provider, level="info") as tracer:
        _act(tracer)
    assert set(tree(tmp_path / "x")) == set(_FILES)


def test_a_preset_is_a_level_of_all(tmp_path: Path) -> None:
    for preset, level in PRESETS.items():
        _insert(Trace("o", "1", tmp_path / preset, level=preset))
        _insert(Trace("o", "1", tmp_path / level.name, level=level.name))
        assert tree(tmp_path / preset) == tree(tmp_path / level.name)


# --- Steps --------------------------------------------------------------------------------------

_SECOND = """
import sys
from otel_kernel_trace import KernelTracer, configure

provider = configure(sys.argv[1])
with KernelTracer("o", "1") as tracer:
    for _ in range(3):
        with tracer.coder(prompt="p"):
            pass
        with tracer.conductor() as verdict:
            verdict.record("ok")
        with tracer.verifier() as check:
            check.record(False, f"{check.step}")
"""


def _judged_and_verified(log_dir: Path) -> list[tuple[int, str]]:
    """Steps with the beginnings of their actions' names, in order."""
    found = set()
    for path in tree(log_dir):
        step, action = Path(path).name.split("_")[1::2][:2]
        found.add((int(step[1:]), action))
    return sorted(found)


@pytest.mark.parametrize("skipped", ["coder=off", "coder=warn"])
def test_steps_go_on_after_a_restart_and_no_two_actions_share_one(tmp_path: Path, skipped: str) -> None:
    for _ in range(3):
        subprocess.run(
            [sys.executable, "-c", _SECOND, str(tmp_path)],
            env={**os.environ, LEVEL_VARIABLE: skipped},
            check=True,
            timeout=60,
        )
    # Every second step is a Coder's, of which only its judgement is there.
    assert _judged_and_verified(tmp_path) == [
        (step, "VERIFY" if step % 2 == 0 else "CheckCoder") for step in range(1, 19)
    ]
    logs = [int(text) for path, text in sorted(tree(tmp_path).items()) if path.endswith("_error_log.txt")]
    assert logs == list(range(2, 19, 2))


def test_two_processes_at_once_share_no_step(tmp_path: Path) -> None:
    environment = {**os.environ, LEVEL_VARIABLE: "coder=off"}
    command = [sys.executable, "-c", _SECOND, str(tmp_path)]
    running = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [process.wait(60) for process in running] == [0, 0]
    found = _judged_and_verified(tmp_path)
    assert len(found) == 12
    assert len({step for step, _ in found}) == 12


@pytest.mark.parametrize("runs", [1, 3])
def test_with_an_exporter_alone_a_skipped_action_is_judged_at_a_step_of_its_own(
    tmp_path: Path, runs: int
) -> None:
    for _ in range(runs):
        with provider_of(KernelTraceSpanExporter(tmp_path)) as provider:
            with KernelTracer("o", "1", provider, level="coder=off") as tracer:
                with tracer.coder() as code:
                    pass
                with tracer.conductor(judges=code) as verdict:
                    verdict.record("ok")
                with tracer.conductor() as verdict:
                    verdict.record("again")
                with tracer.verifier() as check:
                    check.record(False, "boom")
    assert sorted(tree(tmp_path)) == sorted(
        path
        for run in range(runs)
        for path in (
            f"o/conductor/I1_S{2 * run + 1:02d}_o_CheckCoder_result.txt",
            f"o/conductor/I1_S{2 * run + 1:02d}_o_CheckCoder_result~2.txt",
            f"o/I1_S{2 * run + 2:02d}_o_VERIFY_error_log.txt",
        )
    )


def test_a_trace_goes_on_after_what_it_skipped(tmp_path: Path) -> None:
    for _ in range(2):
        _insert(Trace("o", "1", tmp_path, level="info,designer=off,coder=off"))
    assert [path for path in sorted(tree(tmp_path)) if "_verify/" not in path] == [
        "o/I1_S03_o_VERIFY_error_log.txt",
        "o/I1_S04_o_VERIFY_error_log.txt",
        "o/I1_S07_o_VERIFY_error_log.txt",
        "o/I1_S08_o_VERIFY_error_log.txt",
        "o/conductor/I1_S01_o_CheckDesigner_prompt.txt",
        "o/conductor/I1_S01_o_CheckDesigner_reasoning.txt",
        "o/conductor/I1_S01_o_CheckDesigner_result.txt",
        "o/conductor/I1_S02_o_CheckCoder_result.txt",
        "o/conductor/I1_S05_o_CheckDesigner_prompt.txt",
        "o/conductor/I1_S05_o_CheckDesigner_reasoning.txt",
        "o/conductor/I1_S05_o_CheckDesigner_result.txt",
        "o/conductor/I1_S06_o_CheckCoder_result.txt",
    ]


def test_spans_by_hand_without_a_step_are_counted_though_not_written(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False), level="coder=off")
    tracer = provider.get_tracer("t")
    for _ in range(2):
        action_span("DO_CODER", parts={"prompt": "p"}, tracer=tracer)
        action_span("tuner", parts={"result": "r"}, tracer=tracer)
    assert sorted(tree(tmp_path)) == [
        "swish/I1_S02_swish_tuner_result.txt",
        "swish/I1_S04_swish_tuner_result.txt",
    ]


# --- Other processes ----------------------------------------------------------------------------

_CHILD = """
import sys
from otel_kernel_trace import KernelTracer, configure

configure(sys.argv[1])
with KernelTracer.from_carrier() as tracer:
    with tracer.coder(prompt="p"):
        pass
    with tracer.verifier() as check:
        check.record(False, "boom")
"""


@pytest.mark.parametrize("by_argument", [True, False])
def test_a_child_goes_on_at_the_same_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_argument: bool
) -> None:
    if not by_argument:
        monkeypatch.setenv(LEVEL_VARIABLE, "error")
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    with KernelTracer("o", "1", provider, level="error" if by_argument else None) as tracer:
        with tracer.coder(prompt="p"):
            environment = tracer.environment(steps=2)
        subprocess.run([sys.executable, "-c", _CHILD, str(tmp_path)], env=environment, check=True, timeout=60)
        with tracer.verifier() as check:
            check.record(False, "boom")
    assert sorted(tree(tmp_path)) == [
        "o/I1_S03_o_VERIFY_error_log.txt",
        "o/I1_S04_o_VERIFY_error_log.txt",
    ]


def _verify_in_child(tracer: KernelTracer) -> None:
    with tracer.coder(prompt="p"):
        pass
    with tracer.verifier() as check:
        check.record(False, "in the child")


def test_a_forked_child_goes_on(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    with KernelTracer("o", "1", provider, level="coder=off") as tracer:
        with tracer.coder():
            pass
        child = multiprocessing.get_context("fork").Process(target=_verify_in_child, args=(tracer,))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        with tracer.verifier() as check:
            check.record(False, "in the parent")
    assert sorted(tree(tmp_path).values()) == ["in the child", "in the parent"]


# --- What happens inside ------------------------------------------------------------------------


@pytest.fixture
def seen() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(tmp_path: Path, seen: InMemorySpanExporter) -> Iterator[TracerProvider]:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    provider.add_span_processor(SimpleSpanProcessor(seen))
    yield provider
    provider.shutdown()


def _by_name(seen: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in seen.get_finished_spans()}


def test_no_exporter_gets_a_span_below_its_level_and_what_happens_inside_is_the_tasks(
    provider: TracerProvider, seen: InMemorySpanExporter
) -> None:
    other = provider.get_tracer("other")
    with KernelTracer("o", "1", provider, level="coder=error,tuner=off") as tracer:
        with tracer.coder(prompt="p"), other.start_as_current_span("inside"):
            with tracer.action("tuner"), other.start_as_current_span("deeper"):
                pass
        with tracer.designer(), tracer.coder(), other.start_as_current_span("in the designer"):
            pass
    spans = _by_name(seen)
    parents = {name: span.parent.span_id if span.parent else 0 for name, span in spans.items()}
    ids = {name: span.context.span_id for name, span in spans.items() if span.context}
    assert parents == {
        "kernel_task": 0,
        "inside": ids["kernel_task"],
        "deeper": ids["inside"],
        "DO_DESIGNER": ids["kernel_task"],
        "in the designer": ids["DO_DESIGNER"],
    }


def test_where_all_is_off_spans_inside_keep_their_parent(
    provider: TracerProvider, seen: InMemorySpanExporter
) -> None:
    other = provider.get_tracer("other")
    with other.start_as_current_span("program"), KernelTracer("o", "1", provider, level="off") as tracer:
        with tracer.coder(), tracer.conductor(), other.start_as_current_span("inside"):
            pass
    spans = _by_name(seen)
    assert set(spans) == {"program", "inside"}
    assert spans["inside"].parent == spans["program"].context


def _ask(tracer: trace_api.Tracer, *, fails: bool = False) -> None:
    given: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "asked"}]}]',
        "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "said"}]}]',
    }
    with tracer.start_as_current_span("http"), tracer.start_as_current_span("chat", attributes=given) as span:
        if fails:
            span.set_status(Status(StatusCode.ERROR))


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("by_argument", [True, False])
def test_a_model_call_is_at_the_level_of_the_action_that_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: Level, fails: bool, by_argument: bool
) -> None:
    directives = f"coder={level.name}"
    if not by_argument:
        monkeypatch.setenv(LEVEL_VARIABLE, directives)
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    with KernelTracer("o", "1", provider, level=directives if by_argument else None) as tracer:
        with tracer.designer(), tracer.coder():
            _ask(provider.get_tracer("model"), fails=fails)
    calls = [attributes_of(span) for span in _other_lines(tmp_path) if span.name == "chat"]
    assert len(calls) == (level >= INFO or (fails and level >= ERROR))
    assert ["gen_ai.input.messages" in call for call in calls] == [level >= INFO for _ in calls]
    assert all(call["gen_ai.usage.input_tokens"] == 7 for call in calls)
    # It is not the Designer's, whether the Coder has a span or not.
    assert "gen_ai.usage.input_tokens" not in _lines(tmp_path)["DO_DESIGNER", 1]


def test_a_model_call_in_an_action_by_hand_is_that_actions(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    by_hand = {"kernel_trace.op_name": "o", "kernel_trace.task_id": "1", "kernel_trace.action_type": "mine"}
    with KernelTracer("o", "1", provider, level="coder=off") as tracer, tracer.coder():
        with provider.get_tracer("t").start_as_current_span("mine", attributes=by_hand):
            _ask(provider.get_tracer("model"))
    [told] = _lines(tmp_path).values()
    assert told["gen_ai.usage.input_tokens"] == 7


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize("directive", ["verifier={}", "stage={}", "stage={},verifier=info", "debug,stage={}"])
def test_a_stage_is_at_its_own_level_else_at_that_of_the_action_around_it(
    tmp_path: Path, level: Level, status: int, directive: str
) -> None:
    # A tracer's level says what is recorded, the tree's what is written of it.
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False), level="debug")
    with (
        KernelTracer("o", "1", provider, level=directive.format(level.name)) as tracer,
        tracer.verifier() as check,
    ):
        run = tracer.run([sys.executable, "-c", f"print('said'); raise SystemExit({status})"], name="compile")
        with stage("link"):
            pass
        check.record(True)
    assert run.stdout == "said\n"
    found = {
        str(attributes_of(span)["kernel_trace.stage"]): attributes_of(span)
        for span in _other_lines(tmp_path)
        if "kernel_trace.stage" in attributes_of(span)
    }
    assert ("link" in found) is (level >= INFO)
    assert ("compile" in found) is (level >= INFO or (status != 0 and level >= ERROR))
    if "compile" in found:
        assert ("kernel_trace.stage.stdout" in found["compile"]) is (level >= DEBUG or status != 0)


def test_nothing_is_kept_of_actions_below_their_level(tmp_path: Path) -> None:
    with KernelTracer("o", "1", level="error") as tracer:
        for _ in range(20):
            with tracer.coder(prompt="p" * 1000) as action:
                action.record("r" * 1000)
    reference = weakref.ref(tracer)
    del tracer, action
    assert reference() is None


def test_an_action_below_its_level_is_like_any_other_to_the_program(
    provider: TracerProvider, seen: InMemorySpanExporter
) -> None:
    tracer = KernelTracer("o", "1", provider, level="off")
    with pytest.raises(ValueError, match="no action yet"), tracer.conductor():
        pass
    with pytest.raises(ValueError, match="no Designer's action"):
        tracer.designer(action_type=ActionType.DO_CODER)
    with tracer.action("mine") as mine:
        mine.record("r", "t", prompt="p", error_log="e", plan="x")
        mine.span.set_attribute("a", 1)
    with pytest.raises(ValueError, match="no Conductor's check"), tracer.conductor():
        pass
    with tracer.coder() as code:
        assert (code.step, code.action_type) == (2, "DO_CODER")
    with tracer.conductor(judges=code) as verdict:
        assert (verdict.step, verdict.action_type) == (2, "CHECK_CODER")

    @tracer.coder()  # type: ignore[operator]  # as contextlib's are, though that is promised nowhere
    def decorated() -> str:
        return "done"

    assert [decorated(), decorated()] == ["done", "done"]
    with tracer.verifier() as check:
        assert check.step == 5
    assert not seen.get_finished_spans()


def test_in_asyncio_and_in_generators_that_are_abandoned(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    tracer = KernelTracer("o", "1", provider, level="coder=error")

    async def act(number: int) -> None:
        with tracer.coder():
            await asyncio.sleep(0.001 * number)
            with tracer.verifier() as check:
                check.record(False, str(number))

    async def act_all() -> None:
        await asyncio.gather(*map(act, range(5)))

    asyncio.run(act_all())

    def abandoned() -> Generator[None, None, None]:
        with tracer.coder():
            yield

    going = abandoned()
    next(going)
    going.close()
    assert sorted(tree(tmp_path).values()) == list("01234")
    assert {step for step, _ in _judged_and_verified(tmp_path)} <= set(range(1, 11))


# --- Spans of other code ------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["error", "warn", "info"])
def test_what_a_model_was_asked_and_said_is_left_out_of_the_index_too(tmp_path: Path, level: str) -> None:
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False), level=level)
    given = {"kernel_trace.op_name": "o", "kernel_trace.task_id": "1", "kernel_trace.action_type": "DO_CODER"}
    with provider.get_tracer("t").start_as_current_span("coder", attributes=given) as span:
        span.set_attribute("gen_ai.prompt", "asked")
        span.set_attribute("gen_ai.usage.input_tokens", 7)
        span.add_event("gen_ai.content.completion", {"gen_ai.completion": "said"})
        span.set_status(Status(StatusCode.ERROR))
    index = b"".join(path.read_bytes() for path in (tmp_path / ".kernel_trace/index").iterdir())
    [told] = _lines(tmp_path).values()
    assert told["gen_ai.usage.input_tokens"] == 7
    assert (b"asked" in index, b"said" in index) == ((True, True) if level == "info" else (False, False))


def test_a_text_that_is_not_written_is_not_told_to_be_incomplete(tmp_path: Path) -> None:
    limited = TracerProvider(shutdown_on_exit=False, span_limits=SpanLimits(max_span_attribute_length=12))
    tracer = configure(tmp_path, tracer_provider=limited, level="warn").get_tracer("t")
    texts = {"prompt": "a long question", "result": "a long judgement"}
    span = tracer.start_span("check", attributes={"kernel_trace.action_type": "CHECK_CODER"})
    for name, text in texts.items():
        span.set_attribute(f"kernel_trace.part.{name}", text)
    span.end()
    assert tree(tmp_path) == {
        "unknown/conductor/Iunknown_S00_unknown_CheckCoder_result.txt": "a long judge",
        "unknown/conductor/Iunknown_S00_unknown_CheckCoder_~incomplete.txt": (
            "kernel_trace.part.result: cut to 12 characters by the SDK's limit, or just as long"
        ),
    }


def test_what_is_left_out_by_level_is_no_loss_to_warn_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sent = InMemorySpanExporter()
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False), level="coder=off")
    provider.add_span_processor(SimpleSpanProcessor(LinkedSpanExporter(sent, preview_chars=10)))
    with KernelTracer("o", "1", provider, level="info") as tracer, tracer.coder(prompt="p" * 100):
        pass
    assert _by_name(sent)["DO_CODER"].status.status_code is StatusCode.UNSET
    assert attributes_of(_by_name(sent)["DO_CODER"])["kernel_trace.part.prompt"] == "p" * 10
    assert not caplog.records


_NAMES = st.sampled_from([*ActionType.__members__, "mine"])
_PARTS = st.dictionaries(st.sampled_from(["prompt", "result", "reasoning", "error_log", "plan"]), st.text())


@given(_NAMES, _PARTS, st.sampled_from(["True", "False", None]), st.sampled_from(list(Level)))
def test_what_is_written_at_a_level_is_the_same_when_it_is_written_again(
    action_type: str, parts: dict[str, str], verdict: str | None, level: Level
) -> None:
    verified = {} if verdict is None else {"kernel_trace.verify.result": verdict}
    record = read_record(action_span(action_type, parts=parts, more=verified))
    assert record is not None
    written = action_at_level(record, Levels(level))
    if written is not None:
        assert action_at_level(written, Levels(level)) == written
        assert action_at_level(written, Levels(Level.DEBUG)) == written
    more = action_at_level(record, Levels(Level(min(level + 1, Level.DEBUG))))
    assert written is None or (more is not None and set(written.parts) <= set(more.parts))


def test_a_closed_task_keeps_the_steps_of_what_was_skipped_last(tmp_path: Path) -> None:
    for _ in range(2):
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        with KernelTracer("o", "1", provider, level="warn") as tracer:
            with tracer.coder(prompt="p"):
                pass
            with tracer.verifier() as check:
                check.record(False, "error: x")
            with tracer.coder(prompt="p"):
                pass
        provider.shutdown()
    assert sorted(tree(tmp_path)) == ["o/I1_S02_o_VERIFY_error_log.txt", "o/I1_S05_o_VERIFY_error_log.txt"]


@pytest.mark.parametrize(("level", "lines"), [("error", 1), ("warn", 2)])
def test_a_builders_errors_stay_where_its_stage_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str, lines: int
) -> None:
    monkeypatch.setenv("KERNEL_TRACE_LEVEL", level)
    provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
    logger = TracingLogger()
    with KernelTracer("o", "1", provider) as tracer, tracer.verifier() as check:
        with tracer.stage("build"):
            logger.error("no engine")
            logger.warning("Cannot fuse A + B: why")
            logger.info("a layer")
        check.record(False, "error: x")
    provider.shutdown()
    (stage,) = Tree(tmp_path).task("o", "1").stages
    assert len(stage.builder_lines) == lines


@pytest.mark.parametrize("level", ["loud", "dbug", "info,verifir"])
def test_a_level_that_is_not_spelt_right_is_no_agents_name(level: str) -> None:
    with pytest.raises(ValueError, match="component=level"):
        KernelTracer("o", "1", level=level)
