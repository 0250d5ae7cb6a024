"""The document's class."""

from __future__ import annotations

import gc
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry import trace as trace_api
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from otel_kernel_trace import ActionType, KernelTraceSpanExporter, Trace
from otel_kernel_trace.losses import Counts
from tests.spans import action_span
from tests.tree import tree

REPLY = '{"code": "c", "description": "d"}'


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What the program's own provider exports."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace_api, "get_tracer_provider", lambda: provider)
    return exporter


def _coder(trace: Trace, text: str = REPLY, action_type: ActionType = ActionType.DO_CODER) -> None:
    trace.insert_designer_or_coder_record(text, f"prompt {text}", f"reasoning {text}", action_type)


def test_the_documents_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    trace = Trace(op_name="swish", task_id="123", log_dir="~/logs")
    trace.insert_designer_or_coder_record(
        res=REPLY, prompt="prompt_template", reasoning="llm_reasoning", action_type=ActionType.DO_DESIGNER
    )
    assert tree(tmp_path / "logs") == {
        "swish/I123_S01_swish_DO_DESIGNER_prompt.txt": "prompt_template",
        "swish/I123_S01_swish_DO_DESIGNER_reasoning.txt": "llm_reasoning",
        "swish/I123_S01_swish_DO_DESIGNER_result.txt": "c\n\n\n'''\nd\n'''",
    }


def test_every_action_type_has_its_method(tmp_path: Path) -> None:
    trace = Trace("o", "1", tmp_path)
    agents = {"DO_DESIGNER", "FIX_DESIGNER", "DO_CODER", "FIX_CODER", "DO_CODER_DIRECT"}
    for action in ActionType:
        if action.name in agents:
            trace.insert_designer_or_coder_record("r", "p", "t", action)
        else:
            with pytest.raises(ValueError, match="action_type"):
                trace.insert_designer_or_coder_record("r", "p", "t", action)
        if action is not ActionType.VERIFY:
            with pytest.raises(ValueError, match="action_type"):
                trace.insert_verifier_record("True", "", "", action)
        if action.name in {*agents, "VERIFY"}:
            trace.insert_conductor_record("r", "", "", action)
        else:
            with pytest.raises(ValueError, match="action_type"):
                trace.insert_conductor_record("r", "", "", action)
    with pytest.raises(ValueError, match="action_type"):
        trace.insert_conductor_record("r", "", "", "DO_CODER")  # type: ignore[arg-type]  # that is the point
    assert len(trace.trace_list) == 5


def test_a_verification_leaves_its_log_and_its_sources(tmp_path: Path) -> None:
    trace = Trace("o", "1", tmp_path)
    trace.insert_verifier_record(
        "False",
        "log\n",
        "",
        framework="torch",
        impl_type="triton",
        reference="r",
        implementation="i",
        script="s",
    )
    trace.insert_verifier_record("True", "", '{"speedup": 2}')
    assert tree(tmp_path) == {
        "o/I1_S01_o_VERIFY_error_log.txt": "log\n",
        "o/I1_S01_verify/o_torch.py": "r",
        "o/I1_S01_verify/o_triton.py": "i",
        "o/I1_S01_verify/verify_o.py": "s",
    }


def test_a_trace_goes_on_where_the_task_stood(tmp_path: Path) -> None:
    first = Trace("o", "1", tmp_path)
    _coder(first)
    first.insert_verifier_record("True", "", "")
    second = Trace("o", "1", tmp_path)
    _coder(second, "second")
    second.insert_conductor_record("verdict", "", "", ActionType.DO_CODER)
    assert len(second.trace_list) == 1
    assert tree(tmp_path)["o/I1_S03_o_DO_CODER_result.txt"] == "second"
    assert tree(tmp_path)["o/conductor/I1_S03_o_CheckCoder_result.txt"] == "verdict"


def test_traces_that_overwrite_begin_anew(tmp_path: Path) -> None:
    for text in ("first", "second"):
        trace = Trace("o", "1", tmp_path, on_existing="overwrite")
        _coder(trace, text)
    assert tree(tmp_path)["o/I1_S01_o_DO_CODER_result.txt"] == "second"
    assert len(tree(tmp_path)) == 3


def test_threads_of_one_trace_and_traces_of_one_task_lose_nothing(tmp_path: Path) -> None:
    shared = Trace("o", "1", tmp_path)
    texts = [str(number) for number in range(120)]

    def record(number: int) -> None:
        _coder(shared if number % 2 else Trace("o", "1", tmp_path), str(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(record, range(120)))
    results = {path: text for path, text in tree(tmp_path).items() if path.endswith("result.txt")}
    assert sorted(results.values()) == sorted(texts)
    assert len(shared.trace_list) == 60
    for record_of in shared.trace_list:
        assert record_of.prompt == f"prompt {record_of.result}"


class TestTheProgramsOwnProvider:
    def test_gets_the_same_spans(self, tmp_path: Path, seen: InMemorySpanExporter) -> None:
        trace = Trace("o", "1", tmp_path)
        _coder(trace)
        trace.insert_verifier_record("False", "log", "")
        trace.insert_conductor_record("why", "p", "", ActionType.VERIFY)
        trace.close()
        coder, verifier, conductor, root = seen.get_finished_spans()
        assert coder.attributes is not None
        assert coder.attributes["kernel_trace.part.result"] == REPLY
        assert coder.attributes["kernel_trace.step"] == 1
        assert coder.attributes["kernel_trace.log_dir"] == str(tmp_path)
        assert verifier.status.status_code is StatusCode.ERROR
        assert conductor.attributes is not None
        assert conductor.attributes["kernel_trace.action_type"] == "ANALYZE_ERROR"
        assert conductor.attributes["kernel_trace.step"] == 2
        assert root.name == "kernel_task"
        assert root.context is not None
        assert {span.parent.span_id for span in (coder, verifier, conductor) if span.parent} == {
            root.context.span_id
        }

    def test_is_told_the_step_that_the_files_have(self, tmp_path: Path, seen: InMemorySpanExporter) -> None:
        for _ in range(2):
            _coder(Trace("o", "1", tmp_path))
        steps = [
            span.attributes["kernel_trace.step"]
            for span in seen.get_finished_spans()
            if span.attributes and "kernel_trace.step" in span.attributes
        ]
        assert steps == [1, 2]

    def test_writes_nothing_twice_into_the_same_tree(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = KernelTraceSpanExporter(tmp_path)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        monkeypatch.setattr(trace_api, "get_tracer_provider", lambda: provider)
        _coder(Trace("o", "1", tmp_path))
        assert len(tree(tmp_path)) == 3
        assert exporter.counts.received == 0

    def test_may_sample_everything_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
        monkeypatch.setattr(trace_api, "get_tracer_provider", lambda: provider)
        _coder(Trace("o", "1", tmp_path))
        assert len(tree(tmp_path)) == 3


class _Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class TestNothingFailsTheProgram:
    @pytest.mark.parametrize("value", [None, 7, True, b"bytes", ["a"], {"a": 1}, "\ud800", _Unprintable()])
    def test_whatever_it_hands_over(self, tmp_path: Path, value: object) -> None:
        trace = Trace("o", "1", tmp_path)
        trace.insert_designer_or_coder_record(value, value, value, ActionType.DO_CODER)  # type: ignore[arg-type]
        trace.insert_verifier_record(value, value, value)  # type: ignore[arg-type]
        trace.insert_conductor_record(value, value, value, ActionType.VERIFY)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "log_dir",
        [
            "",
            "a\0b",
            7,
            b"x",
            "\ud800",
            "/proc/nowhere",
            "/etc/passwd",
            "~nobody-of-that-name/x",
            "x/" * 3000,
            _Unprintable(),
        ],
    )
    def test_wherever_it_wants_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_dir: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        trace = Trace("o", "1", log_dir)
        _coder(trace)
        trace.insert_verifier_record("False", "log", "profile")
        assert [record.result for record in trace.trace_list] == [REPLY, "False"]
        assert trace.trace_list[0].prompt == f"prompt {REPLY}"
        assert trace.trace_list[1].error_log == "log"
        assert trace.trace_list[1].prompt == ""
        assert list(tmp_path.iterdir()) == []

    def test_where_the_tree_can_not_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "o").write_text("in the way")
        trace = Trace("o", "1", tmp_path)
        for number in range(3):
            _coder(trace, str(number))
        assert [record.result for record in trace.trace_list] == ["0", "1", "2"]
        assert [record.prompt for record in trace.trace_list] == ["prompt 0", "prompt 1", "prompt 2"]
        assert trace.counts == Counts(3, 0, 3)

    def test_names_without_a_text(self, tmp_path: Path) -> None:
        _coder(Trace(_Unprintable(), _Unprintable(), tmp_path))  # type: ignore[arg-type]
        assert len(tree(tmp_path)) == 3
        with pytest.raises(ValueError, match="_Unprintable"):
            _coder(Trace("o", "1", tmp_path), action_type=_Unprintable())  # type: ignore[arg-type]

    def test_in_a_folder_that_is_gone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        _coder(Trace("o", "1", tmp_path / "logs"))
        assert len(tree(tmp_path / "logs")) == 3
        assert KernelTraceSpanExporter().export([action_span()]) is SpanExportResult.FAILURE

    @pytest.mark.parametrize("when", ["on_start", "on_end"])
    def test_where_the_programs_own_processors_fail(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
    ) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("not our fault")

        processor = SpanProcessor()
        setattr(processor, when, fail)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(processor)
        monkeypatch.setattr(trace_api, "get_tracer_provider", lambda: provider)
        trace = Trace("o", "1", tmp_path)
        _coder(trace)
        assert len(tree(tmp_path)) == 3
        assert [record.result for record in trace.trace_list] == [REPLY]

    def test_from_a_signal_handler_in_the_middle_of_it(self, tmp_path: Path) -> None:
        trace = Trace("o", "1", tmp_path)
        handled = 0

        def handle(*_: object) -> None:
            nonlocal handled
            handled += 1
            trace.insert_verifier_record("False", f"signal {handled}", "")

        before = signal.signal(signal.SIGALRM, handle)
        try:
            for number in range(1000):
                # Once, so that handlers do not interrupt each other without end on a slow machine.
                signal.setitimer(signal.ITIMER_REAL, 0.0001 + 0.000_001 * (number % 1000))
                _coder(trace, str(number))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert handled > 0
        assert len(trace.trace_list) == 1000 + handled
        texts = list(tree(tmp_path).values())
        assert all(texts.count(f"signal {number}") == 1 for number in range(1, handled + 1))

    def test_a_wrong_option_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="layout"):
            Trace("o", "1", tmp_path, layout="nope")


class TestTraceList:
    def test_is_a_sequence_of_the_records_as_they_were_made(self, tmp_path: Path) -> None:
        trace = Trace("o", "1", tmp_path)
        assert len(trace.trace_list) == 0
        assert not trace.trace_list
        texts = ["a", "b\r\n", "c\ud800", "é\0"]
        for text in texts:
            _coder(trace, text)
        trace.insert_verifier_record("False", "log\r\n\udcff", "speedup: 1.0x")
        trace.insert_conductor_record("r", "p", "t", ActionType.VERIFY)
        records = trace.trace_list
        assert len(records) == 5
        assert [record.result for record in reversed(records)] == ["False", *reversed(texts)]
        assert [record.prompt for record in records[1:3]] == ["prompt b\r\n", "prompt c\ud800"]
        assert (records[-1].error_log, records[-1].profile) == ("log\r\n\udcff", "speedup: 1.0x")
        assert records[0] == records[-5]
        assert records[0] != records[1]
        with pytest.raises(IndexError):
            records[5]

    def test_has_the_programs_text_where_a_stranger_took_the_name(self, tmp_path: Path) -> None:
        trace = Trace("o", "1", tmp_path)
        _coder(trace, "one")
        (tmp_path / "o" / "I1_S02_o_DO_CODER_prompt.txt").write_text("theirs")
        for text in ("two", "three"):
            _coder(trace, text)
        assert [record.prompt for record in trace.trace_list] == ["prompt one", "prompt two", "prompt three"]
        trace.insert_conductor_record("of three", "", "", ActionType.DO_CODER)
        assert tree(tmp_path)["o/conductor/I1_S04_o_CheckCoder_result.txt"] == "of three"

    def test_keeps_no_text_in_memory(self, tmp_path: Path) -> None:
        trace = Trace("o", "1", tmp_path)
        for number in range(20):
            trace.insert_designer_or_coder_record(f"{number}" * 1000, "p" * 1000, "", ActionType.DO_CODER)
        gc.collect()
        long_texts = [item for item in gc.get_objects() if isinstance(item, dict) and "prompt" in item]
        assert not any(len(str(item.get("prompt"))) == 1000 for item in long_texts)
        assert trace.trace_list[7].result == "7" * 1000
        assert trace.trace_list[7].prompt == "p" * 1000

    def test_holds_few_files_open_however_many_traces_there_are(self, tmp_path: Path) -> None:
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        traces = [Trace("o", "1", tmp_path / str(number)) for number in range(300)]
        for trace in traces:
            _coder(trace)
        after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        assert after - before < 150
        assert all(trace.trace_list[0].result == REPLY for trace in traces)


def test_base_doc_is_the_programs_own(tmp_path: Path) -> None:
    trace = Trace("o", "1", tmp_path)
    trace.base_doc.update({"api": "doc"})
    assert trace.base_doc == {"api": "doc"}
    assert Trace("o", "1", tmp_path).base_doc == {}
