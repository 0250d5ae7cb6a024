"""The exporter: what becomes of spans, and of those that can't be written."""

from __future__ import annotations

import logging
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_kernel_trace import KernelTraceSpanExporter
from otel_kernel_trace.losses import Counts
from tests.spans import action_span, provider_of
from tests.tree import raw_tree, tree

SUCCESS, FAILURE = SpanExportResult.SUCCESS, SpanExportResult.FAILURE


def test_a_finished_span_is_files(tmp_path: Path) -> None:
    with provider_of(KernelTraceSpanExporter(tmp_path)) as provider:
        span = action_span(step=3, parts={"prompt": "p", "result": "r"}, tracer=provider.get_tracer("x"))
        assert span.end_time is not None
        assert tree(tmp_path) == {
            "swish/I1_S03_swish_DO_CODER_prompt.txt": "p",
            "swish/I1_S03_swish_DO_CODER_reasoning.txt": "",
            "swish/I1_S03_swish_DO_CODER_result.txt": "r",
        }


def test_spans_that_are_no_actions_leave_nothing(tmp_path: Path) -> None:
    exporter = KernelTraceSpanExporter(tmp_path / "logs")
    assert exporter.export([ReadableSpan("GET /"), ReadableSpan("x", attributes={"a": 1})]) is SUCCESS
    assert not (tmp_path / "logs").exists()
    assert exporter.counts == Counts(0, 0, 0)


def test_text_is_kept_byte_for_byte(tmp_path: Path) -> None:
    text = "a\r\nb\rc\n\0\x1b[31m é 矩 \U0001f600\ud83d end"
    KernelTraceSpanExporter(tmp_path).export([action_span(parts={"prompt": text})])
    written = raw_tree(tmp_path)["swish/I1_S01_swish_DO_CODER_prompt.txt"]
    assert written == text.encode("utf-8", "backslashreplace")
    assert written.endswith(b"\xf0\x9f\x98\x80\\ud83d end")


@pytest.mark.slow
def test_a_text_of_100_mb_is_written(tmp_path: Path) -> None:
    text = "0123456789abcdef" * (100 * 2**20 // 16)
    assert KernelTraceSpanExporter(tmp_path).export([action_span(parts={"result": text})]) is SUCCESS
    assert (tmp_path / "swish/I1_S01_swish_DO_CODER_result.txt").read_text() == text


class TestSteps:
    def test_spans_that_give_none_are_counted(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        exporter.export([action_span("a", parts={"x": "1"}), action_span("b", parts={"x": "2"})])
        assert tree(tmp_path) == {"swish/I1_S01_swish_a_x.txt": "1", "swish/I1_S02_swish_b_x.txt": "2"}

    def test_actions_may_end_in_another_order_than_they_began(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        for step in (3, 1, 2, 5, 4):
            exporter.export([action_span("a", step=step, parts={"x": str(step)})])
        assert tree(tmp_path) == {f"swish/I1_S0{step}_swish_a_x.txt": str(step) for step in range(1, 6)}

    def test_a_second_run_goes_on_after_the_first(self, tmp_path: Path) -> None:
        for run in ("first", "second"):
            exporter = KernelTraceSpanExporter(tmp_path)
            for step, action_type in ((1, "DO_DESIGNER"), (2, "DO_CODER"), (3, "VERIFY")):
                exporter.export([action_span(action_type, step=step, parts={"error_log": run})])
        assert sorted(path for path in tree(tmp_path) if "error_log" in path) == [
            "swish/I1_S01_swish_DO_DESIGNER_error_log.txt",
            "swish/I1_S02_swish_DO_CODER_error_log.txt",
            "swish/I1_S03_swish_VERIFY_error_log.txt",
            "swish/I1_S04_swish_DO_DESIGNER_error_log.txt",
            "swish/I1_S05_swish_DO_CODER_error_log.txt",
            "swish/I1_S06_swish_VERIFY_error_log.txt",
        ]

    def test_a_step_belongs_to_one_action_also_when_it_leaves_no_file(self, tmp_path: Path) -> None:
        KernelTraceSpanExporter(tmp_path).export([action_span("VERIFY", step=1)])
        KernelTraceSpanExporter(tmp_path).export([action_span("DO_CODER", step=1)])
        assert set(tree(tmp_path)) == {
            f"swish/I1_S02_swish_DO_CODER_{part}.txt" for part in ("prompt", "reasoning", "result")
        }

    def test_the_conductor_follows_the_action_that_it_judges(self, tmp_path: Path) -> None:
        KernelTraceSpanExporter(tmp_path).export([action_span("a", step=1, parts={"x": "of an earlier run"})])
        exporter = KernelTraceSpanExporter(tmp_path)
        with provider_of(exporter) as provider:
            tracer = provider.get_tracer("x")
            with tracer.start_as_current_span("one run"):
                action_span("VERIFY", step=1, parts={"error_log": "e"}, tracer=tracer)
                action_span("ANALYZE_ERROR", step=1, parts={"result": "why"}, tracer=tracer)
        assert tree(tmp_path)["swish/conductor/I1_S02_swish_AnalyzeError_result.txt"] == "why"

    def test_a_conductor_that_does_not_say_which_judges_the_last(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        exporter.export([action_span("CHECK_DESIGNER", parts={"result": "before all"})])
        exporter.export([action_span("DO_CODER"), action_span("CHECK_CODER", parts={"result": "ok"})])
        conductor = {path: text for path, text in tree(tmp_path).items() if "conductor" in path}
        assert conductor == {
            "swish/conductor/I1_S00_swish_CheckDesigner_result.txt": "before all",
            "swish/conductor/I1_S01_swish_CheckCoder_result.txt": "ok",
        }

    def test_a_step_judged_twice_has_both_judgements(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        for verdict in ("no", "yes", "maybe"):
            exporter.export([action_span("CHECK_CODER", step=1, parts={"result": verdict})])
        assert sorted(tree(tmp_path).values()) == ["maybe", "no", "yes"]

    def test_numbering_goes_on_after_a_tree_that_somebody_else_wrote(self, tmp_path: Path) -> None:
        folder = tmp_path / "swish"
        folder.mkdir()
        (folder / "I1_S07_swish_DO_CODER_result.txt").write_text("theirs")
        (folder / "I12_S90_swish_DO_CODER_result.txt").write_text("of another task")
        exporter = KernelTraceSpanExporter(tmp_path)
        for task in ("1", "12", "3"):
            exporter.export([action_span("a", task_id=task, step=1, parts={"x": task})])
        assert {path for path in tree(tmp_path) if path.endswith("_x.txt")} == {
            "swish/I1_S08_swish_a_x.txt",
            "swish/I12_S91_swish_a_x.txt",
            "swish/I3_S01_swish_a_x.txt",
        }

    def test_a_strangers_file_is_never_replaced(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        exporter.export([action_span(step=1)])
        theirs = tmp_path / "swish" / "I1_S02_swish_DO_CODER_result.txt"
        theirs.write_text("theirs")
        assert exporter.export([action_span(step=2, parts={"result": "ours"})]) is SUCCESS
        assert theirs.read_text() == "theirs"
        assert tree(tmp_path)["swish/I1_S03_swish_DO_CODER_result.txt"] == "ours"
        assert "swish/I1_S02_swish_DO_CODER_prompt.txt" not in tree(tmp_path)

    @pytest.mark.parametrize("removed", ["swish", ""])
    def test_records_that_were_removed_free_their_numbers(self, tmp_path: Path, removed: str) -> None:
        logs = tmp_path / "logs"
        KernelTraceSpanExporter(logs).export([action_span(step=5)])
        shutil.rmtree(logs / removed)
        KernelTraceSpanExporter(logs).export([action_span("a", step=1, parts={"x": "again"})])
        assert tree(logs) == {"swish/I1_S01_swish_a_x.txt": "again"}

    def test_a_tree_that_is_removed_meanwhile_is_made_anew(self, tmp_path: Path) -> None:
        logs = tmp_path / "logs"
        exporter = KernelTraceSpanExporter(logs)
        for step in (1, 2, 3):
            assert exporter.export([action_span("a", step=step, parts={"x": str(step)})]) is SUCCESS
            assert tree(logs) == {f"swish/I1_S0{step}_swish_a_x.txt": str(step)}
            shutil.rmtree(logs)


class TestOnExisting:
    def test_overwrite_replaces_files_and_keeps_others(self, tmp_path: Path) -> None:
        for run in ("first", "second"):
            exporter = KernelTraceSpanExporter(tmp_path, on_existing="overwrite")
            exporter.export([action_span(step=1, parts={"result": run})])
            exporter.export([action_span(step=2, parts={run: "only here"})])
        assert tree(tmp_path)["swish/I1_S01_swish_DO_CODER_result.txt"] == "second"
        assert tree(tmp_path)["swish/I1_S02_swish_DO_CODER_first.txt"] == "only here"

    def test_overwriting_spares_what_the_run_itself_wrote(self, tmp_path: Path) -> None:
        for run in ("first", "second"):
            with provider_of(KernelTraceSpanExporter(tmp_path, on_existing="overwrite")) as provider:
                tracer = provider.get_tracer("x")
                with tracer.start_as_current_span("run"):
                    for verdict in ("no", "yes"):
                        parts = {"result": f"{run} {verdict}"}
                        action_span("CHECK_CODER", step=1, parts=parts, tracer=tracer)
        assert sorted(tree(tmp_path).values()) == ["second no", "second yes"]

    def test_fail_refuses_and_says_so(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        KernelTraceSpanExporter(tmp_path).export([action_span(step=1, parts={"result": "first"})])
        before = tree(tmp_path)
        exporter = KernelTraceSpanExporter(tmp_path, on_existing="fail")
        assert exporter.export([action_span(step=1, parts={"result": "second"})]) is FAILURE
        assert tree(tmp_path) == before
        assert exporter.counts == Counts(1, 0, 1)
        assert "on_existing" in caplog.text
        assert exporter.export([action_span(step=2)]) is SUCCESS

    def test_fail_lets_a_run_judge_a_step_as_often_as_it_likes(self, tmp_path: Path) -> None:
        for run in ("first", "second"):
            exporter = KernelTraceSpanExporter(tmp_path, on_existing="fail")
            with provider_of(exporter) as provider:
                tracer = provider.get_tracer("x")
                with tracer.start_as_current_span("run"):
                    for verdict in ("no", "perhaps", "yes"):
                        parts = {"result": f"{run} {verdict}"}
                        action_span("CHECK_CODER", step=1, parts=parts, tracer=tracer)
            assert sorted(tree(tmp_path).values()) == ["first no", "first perhaps", "first yes"]
        assert exporter.counts == Counts(3, 0, 3)

    def test_a_step_may_be_judged_a_thousand_times(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        exporter.export([action_span(step=1)])
        for number in range(1200):
            exporter.export([action_span("CHECK_CODER", step=1, parts={"result": str(number)})])
        assert exporter.counts == Counts(1201, 1201, 0)
        found = tree(tmp_path)
        assert found["swish/conductor/I1_S01_swish_CheckCoder_result.txt"] == "0"
        assert found["swish/conductor/I1_S01_swish_CheckCoder_result~1200.txt"] == "1199"


def test_one_bad_span_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    exporter = KernelTraceSpanExporter(tmp_path)
    spans = [action_span(op_name=op) for op in ("good", "blocked", "fine")]
    assert exporter.export(spans) is FAILURE
    assert exporter.counts == Counts(3, 2, 1)
    assert {path.partition("/")[0] for path in tree(tmp_path)} == {"good", "blocked", "fine"}


def test_a_span_that_can_not_even_be_read_is_counted(tmp_path: Path) -> None:
    class Broken(ReadableSpan):
        @property
        def attributes(self) -> None:
            raise RuntimeError("broken")

    exporter = KernelTraceSpanExporter(tmp_path)
    assert exporter.export([Broken("x")]) is FAILURE
    assert exporter.counts == Counts(1, 0, 1)


def test_what_is_no_span_is_a_failure_and_no_exception(tmp_path: Path) -> None:
    hostile = ReadableSpan("x", attributes={"kernel_trace.part.x": {(1, 2): 3}})  # type: ignore[dict-item]
    exporter = KernelTraceSpanExporter(tmp_path)
    assert exporter.export([None, hostile]) is FAILURE  # type: ignore[list-item]  # that is the point
    assert exporter.counts.failed >= 1


def test_a_folder_that_was_moved_away_gets_nothing_more(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    exporter = KernelTraceSpanExporter(logs)
    exporter.export([action_span("a", step=1, parts={"x": "1"})])
    logs.rename(tmp_path / "rotated")
    exporter.export([action_span("a", step=2, parts={"x": "2"})])
    assert list(tree(tmp_path / "rotated").values()) == ["1"]
    assert list(tree(logs).values()) == ["2"]


def test_loss_is_logged_once_a_minute_a_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "swish").write_text("in the way")
    exporter = KernelTraceSpanExporter(tmp_path)
    with caplog.at_level(logging.ERROR):
        for _ in range(50):
            exporter.export([action_span()])
        assert len(caplog.records) == 1
        assert "ENOTDIR" in caplog.text
        assert str(tmp_path) in caplog.text
        monkeypatch.setattr("otel_kernel_trace.losses._LOG_SECONDS", 0.0)
        exporter.export([action_span()])
    assert len(caplog.records) == 2
    assert "49 more" in caplog.records[1].getMessage()


class TestShutdown:
    def test_after_shutdown_records_fail_and_are_counted(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        exporter.shutdown()
        exporter.shutdown()
        assert exporter.export([action_span()]) is FAILURE
        assert exporter.export([]) is FAILURE
        assert exporter.counts == Counts(1, 0, 1)
        assert tree(tmp_path) == {}

    def test_flushing_is_always_done(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        assert exporter.force_flush()
        assert exporter.force_flush(0)


def test_file_mode_holds_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        exporter = KernelTraceSpanExporter(tmp_path / "logs", file_mode=0o640)
        exporter.export([action_span("CHECK_CODER", step=1, parts={"prompt": "p"})])
    finally:
        os.umask(before)
    for path in (tmp_path / "logs").rglob("*"):
        expected = 0o750 if path.is_dir() else 0o640
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_threads_write_every_record_once(tmp_path: Path) -> None:
    exporter = KernelTraceSpanExporter(tmp_path)
    texts = [f"{thread}.{number}" for thread in range(8) for number in range(25)]
    with ThreadPoolExecutor(8) as pool:
        spans = [action_span(step=1 + index % 25, parts={"prompt": text}) for index, text in enumerate(texts)]
        assert set(pool.map(lambda span: exporter.export([span]), spans)) == {SUCCESS}
    written = [text for path, text in tree(tmp_path).items() if path.endswith("_prompt.txt")]
    assert sorted(written) == sorted(texts)
    assert exporter.counts == Counts(200, 200, 0)


def test_a_record_that_is_in_the_tree_already_is_not_written_again(tmp_path: Path) -> None:
    exporter = KernelTraceSpanExporter(tmp_path)
    here = action_span(more={"kernel_trace.log_dir": exporter.log_dir})
    (tmp_path / "link").symlink_to(tmp_path)
    assert KernelTraceSpanExporter(f"/{tmp_path}/link").log_dir == exporter.log_dir
    elsewhere = action_span(more={"kernel_trace.log_dir": str(tmp_path / "elsewhere")})
    assert exporter.export([here, elsewhere]) is SUCCESS
    assert exporter.counts.received == 1


any_name = st.text(max_size=300) | st.sampled_from(
    ["..", "../../x", "/etc/passwd", "a\0b", ".kernel_trace", "x" * 300]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(op=any_name, task=any_name, action=any_name, part=any_name, text=st.text())
@pytest.mark.parametrize("layout", ["design", "aikg", "akg_agents"])
def test_any_name_and_any_text_are_files_below_log_dir(
    tmp_path_factory: pytest.TempPathFactory,
    layout: str,
    op: str,
    task: str,
    action: str,
    part: str,
    text: str,
) -> None:
    around = tmp_path_factory.mktemp("around")
    exporter = KernelTraceSpanExporter(around / "logs", layout=layout)
    span = action_span(action, op_name=op, task_id=task, parts={part: text or "x"})
    assert exporter.export([span]) is SUCCESS
    assert [path.name for path in around.iterdir()] == ["logs"]
    expected = (text or "x").encode("utf-8", "backslashreplace")
    assert expected in raw_tree(around / "logs").values()
