"""The processor: on disk when the span has ended, and its prompt when it begins."""

from __future__ import annotations

import gc
import json
import logging
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler, TraceIdRatioBased

from otel_kernel_trace import (
    ActionType,
    KernelTracer,
    KernelTraceSpanExporter,
    KernelTraceSpanProcessor,
    Trace,
    configure,
    live,
)
from otel_kernel_trace.busy import busy
from otel_kernel_trace.indexed import Passed, indexed_spans
from otel_kernel_trace.record import attributes_of
from otel_kernel_trace.store import Store
from tests.tree import tree

_ACTION = {
    "kernel_trace.op_name": "swish",
    "kernel_trace.task_id": "1",
    "kernel_trace.action_type": "DO_CODER",
}
_PROMPT = "swish/I1_S01_swish_DO_CODER_prompt.txt"
_RESULT = "swish/I1_S01_swish_DO_CODER_result.txt"
_INCOMPLETE = "swish/I1_S01_swish_DO_CODER_~incomplete.txt"


@contextmanager
def _provider(
    log_dir: Path, *, sampler: Sampler | None = None, limits: SpanLimits | None = None
) -> Iterator[TracerProvider]:
    provider = TracerProvider(sampler=sampler, span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(log_dir)))
    yield provider
    provider.shutdown()


def _index(log_dir: Path) -> list[ReadableSpan]:
    return list(indexed_spans(Store(str(log_dir)), Passed()))


class TestBeginning:
    def test_the_prompt_is_on_disk_while_the_model_thinks(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt="Write swish."):
                assert tree(tmp_path) == {_PROMPT: "Write swish."}
            assert len(tree(tmp_path)) == 3

    def test_that_of_a_span_made_by_hand_too(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider:
            given = {**_ACTION, "kernel_trace.part.prompt": "by hand"}
            provider.get_tracer("t").start_span("any name", attributes=given)
            assert tree(tmp_path) == {_PROMPT: "by hand"}

    def test_a_conductors_too_and_its_own_where_there_are_two(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder():
                pass
            with tracer.conductor(prompt="first") as one, tracer.conductor(prompt="second") as two:
                two.record(result="of the second")
                one.record(result="of the first")
        written = tree(tmp_path / "swish" / "conductor")
        assert written == {
            "I1_S01_swish_CheckCoder_prompt.txt": "first",
            "I1_S01_swish_CheckCoder_result.txt": "of the first",
            "I1_S01_swish_CheckCoder_prompt~2.txt": "second",
            "I1_S01_swish_CheckCoder_result~2.txt": "of the second",
        }

    def test_a_prompt_that_changed_is_replaced_at_the_end(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt="first") as action:
                action.record(prompt="second", result="r")
        assert tree(tmp_path)[_PROMPT] == "second"
        assert len(tree(tmp_path)) == 3

    def test_it_takes_the_step_and_tells_span_and_action(self, tmp_path: Path) -> None:
        for run in (0, 1):
            with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
                with tracer.coder(prompt="p") as first, tracer.verifier() as second:
                    assert (first.step, second.step) == (1 + 2 * run, 2 + 2 * run)
                    second.record(True)
                assert isinstance(first.span, ReadableSpan)
                assert first.span.attributes is not None
                assert first.span.attributes["kernel_trace.step"] == first.step
                assert first.span.attributes["kernel_trace.log_dir"] == str(tmp_path)

    def test_the_index_has_what_began_and_did_not_end(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt="p"):
                [begun] = _index(tmp_path)
                assert begun.end_time is None
                assert attributes_of(begun)["kernel_trace.pending"] is True
                assert attributes_of(begun)["kernel_trace.part.prompt.path"] == _PROMPT
            [ended] = _index(tmp_path)
            assert ended.end_time is not None
            assert "kernel_trace.pending" not in attributes_of(ended)

    def test_a_beginning_that_could_not_be_written_comes_with_the_end(self, tmp_path: Path) -> None:
        log_dir = tmp_path / "logs"
        log_dir.write_text("in the way")
        with _provider(log_dir) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt="p") as action:
                log_dir.unlink()
                action.record(result="r")
        assert tree(log_dir)[_PROMPT] == "p"
        assert tree(log_dir)[_RESULT] == "r"

    def test_a_prompt_that_was_deleted_meanwhile_is_there_again(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt="p") as action:
                (tmp_path / _PROMPT).unlink()
                action.record(result="r")
        assert tree(tmp_path)[_PROMPT] == "p"

    def test_where_existing_files_are_to_refuse_it_they_do(self, tmp_path: Path) -> None:
        for step in range(2):
            provider = configure(tmp_path, tracer_provider=TracerProvider(), on_existing="fail")
            with KernelTracer("swish", "1", provider) as tracer, tracer.verifier() as check:
                check.record(False, f"run {step}")
            provider.shutdown()
        assert tree(tmp_path) == {"swish/I1_S01_swish_VERIFY_error_log.txt": "run 0"}

    def test_files_that_others_put_in_the_way_meanwhile_stay(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt="p") as action:
                (tmp_path / _RESULT).write_text("a stranger's")
                action.record(result="r")
        written = tree(tmp_path)
        assert written.pop(_RESULT) == "a stranger's"
        assert written == {
            f"swish/I1_S02_swish_DO_CODER_{part}.txt": text
            for part, text in (("prompt", "p"), ("reasoning", ""), ("result", "r"))
        }


class TestSampling:
    @pytest.mark.parametrize("sampler", [ALWAYS_OFF, TraceIdRatioBased(0.0)])
    def test_what_is_not_sampled_is_on_disk_and_in_no_backend(self, tmp_path: Path, sampler: Sampler) -> None:
        backend = InMemorySpanExporter()
        with _provider(tmp_path, sampler=sampler) as provider:
            provider.add_span_processor(SimpleSpanProcessor(backend))
            with KernelTracer("swish", "1", provider) as tracer:
                with tracer.coder(prompt="p") as action:
                    action.record(result="r")
                with tracer.verifier() as check:
                    check.record(False, "log")
                with tracer.conductor(judges=check) as verdict:
                    verdict.record(result="mend")
        assert len(tree(tmp_path)) == 5
        assert backend.get_finished_spans() == ()

    def test_a_share_reaches_the_backend_and_whole_traces_of_it(self, tmp_path: Path) -> None:
        backend = InMemorySpanExporter()
        with _provider(tmp_path, sampler=TraceIdRatioBased(0.5)) as provider:
            provider.add_span_processor(SimpleSpanProcessor(backend))
            for task in range(100):
                with KernelTracer("swish", str(task), provider) as tracer, tracer.coder(prompt="p"):
                    pass
        assert len(tree(tmp_path)) == 300
        sampled = {span.context.trace_id for span in backend.get_finished_spans() if span.context}
        assert 20 < len(sampled) < 80
        assert len(backend.get_finished_spans()) == 2 * len(sampled)


class TestLimits:
    def test_the_files_have_the_whole_text(self, tmp_path: Path) -> None:
        text, reply = "é" * 5000, json.dumps({"code": "c" * 5000, "description": "d" * 5000})
        with (
            _provider(tmp_path, limits=SpanLimits(max_attribute_length=100)) as provider,
            KernelTracer("swish", "1", provider) as tracer,
        ):
            with tracer.coder(prompt=text) as action:
                assert tree(tmp_path)[_PROMPT] == text
                action.record(result=reply, reasoning=text, plan=text)
            with tracer.verifier(framework="f" * 150) as check:
                check.record(False, text, reference=text)
        written = tree(tmp_path)
        assert written[_PROMPT] == text
        assert written[_RESULT] == "c" * 5000 + "\n\n\n'''\n" + "d" * 5000 + "\n'''"
        assert written["swish/I1_S01_swish_DO_CODER_plan.txt"] == text
        assert written["swish/I1_S02_swish_VERIFY_error_log.txt"] == text
        assert written[f"swish/I1_S02_verify/swish_{'f' * 150}.py"] == text
        assert not any("~incomplete" in name for name in written)

    def test_so_they_have_beside_200_other_attributes(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt="p" * 300) as action:
                action.record(result="r", reasoning="t")
                for number in range(200):
                    action.span.set_attribute(f"mine.{number}", number)
            assert isinstance(action.span, ReadableSpan)
            assert action.span.attributes is not None
            assert "kernel_trace.op_name" not in action.span.attributes  # the limit did drop it
        assert tree(tmp_path) == {
            _PROMPT: "p" * 300,
            _RESULT: "r",
            "swish/I1_S01_swish_DO_CODER_reasoning.txt": "t",
        }

    def test_so_they_have_through_an_exporter_alone(self, tmp_path: Path) -> None:
        provider = TracerProvider(span_limits=SpanLimits(max_attribute_length=10), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(KernelTraceSpanExporter(tmp_path)))
        with KernelTracer("swish", "1", provider) as tracer, tracer.coder(prompt="p" * 300):
            pass
        assert tree(tmp_path)[_PROMPT] == "p" * 300

    def test_what_is_cut_of_a_span_made_by_hand_is_written_down(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with _provider(tmp_path, limits=SpanLimits(max_attribute_length=100)) as provider:
            span = provider.get_tracer("t").start_span("a", attributes=_ACTION)
            span.set_attribute("kernel_trace.part.prompt", "p" * 300)
            span.set_attribute("kernel_trace.part.result", "r" * 99)
            span.end()
        written = tree(tmp_path)
        assert written[_PROMPT] == "p" * 100
        assert written[_INCOMPLETE].startswith("kernel_trace.part.prompt: cut to 100 characters")
        assert "result" not in written[_INCOMPLETE]
        [line] = [record for record in caplog.records if record.name == "otel_kernel_trace"]
        assert line.levelno == logging.WARNING
        assert "incomplete" in line.message

    def test_so_it_is_of_a_part_added_by_hand_to_one_of_ours(self, tmp_path: Path) -> None:
        with (
            _provider(tmp_path, limits=SpanLimits(max_attribute_length=100)) as provider,
            KernelTracer("swish", "1", provider) as tracer,
            tracer.coder(prompt="p" * 100) as action,
        ):
            action.span.set_attribute("kernel_trace.part.plan", "x" * 300)
        assert tree(tmp_path)[_INCOMPLETE].splitlines() == [
            "kernel_trace.part.plan: cut to 100 characters by the SDK's limit, or just as long"
        ]

    def test_what_is_dropped_of_a_span_made_by_hand_is_made_good_or_written_down(
        self, tmp_path: Path
    ) -> None:
        with _provider(tmp_path) as provider:
            span = provider.get_tracer("t").start_span(
                "a", attributes={**_ACTION, "kernel_trace.part.prompt": "p"}
            )
            for number in range(200):
                span.set_attribute(f"mine.{number}", number)
            span.end()
        written = tree(tmp_path)
        assert written[_PROMPT] == "p"  # was there at the start
        assert "attributes were dropped" in written[_INCOMPLETE]

    def test_a_traceback_is_whole_whatever_the_limits_of_events(self, tmp_path: Path) -> None:
        limits = SpanLimits(max_events=0, max_attribute_length=20)
        with _provider(tmp_path, limits=limits) as provider, KernelTracer("swish", "1", provider) as tracer:
            with pytest.raises(ValueError, match="the end"), tracer.coder():
                raise ValueError("x" * 500 + "the end")
        [log] = [text for path, text in tree(tmp_path).items() if path.endswith("error_log.txt")]
        assert log.startswith("Traceback")
        assert log.endswith("the end\n")
        assert "tracer.py" not in log  # no frames of ours

    def test_what_is_set_by_hand_later_counts(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt="p") as action:
                action.record(result="first")
                action.span.set_attribute("kernel_trace.part.result", "second")
        assert tree(tmp_path)[_RESULT] == "second"


class TestMemory:
    def test_nothing_is_kept_of_spans_that_ended(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            for _ in range(20):
                with tracer.coder(prompt="p" * 1000) as action:
                    action.record(result="r")
            span = weakref.ref(action.span)
        del tracer, action, provider
        gc.collect()
        assert span() is None
        assert not live._live

    def test_nor_of_those_that_were_dropped_or_never_ended(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider:
            tracer = provider.get_tracer("t")
            for _ in range(20):
                tracer.start_span("a", attributes={**_ACTION, "kernel_trace.part.prompt": "p"})
        del tracer, provider
        gc.collect()
        assert not live._live


class TestOnce:
    @pytest.mark.parametrize("is_first", [True, False])
    @pytest.mark.parametrize("kind", [SimpleSpanProcessor, BatchSpanProcessor])
    def test_beside_an_exporter_for_the_same_tree_nothing_is_written_twice(
        self, tmp_path: Path, kind: type[SimpleSpanProcessor | BatchSpanProcessor], is_first: bool
    ) -> None:
        provider = TracerProvider(shutdown_on_exit=False)
        other = KernelTraceSpanExporter(tmp_path)
        processors = [KernelTraceSpanProcessor(KernelTraceSpanExporter(tmp_path)), kind(other)]
        for processor in processors if is_first else reversed(processors):
            provider.add_span_processor(processor)
        with KernelTracer("swish", "1", provider) as tracer, tracer.coder(prompt="p") as action:
            action.record(result="r")
        late = provider.get_tracer("t").start_span("late")  # an action only when it has begun
        late.set_attributes({**_ACTION, "kernel_trace.task_id": "2", "kernel_trace.part.prompt": "q"})
        late.end()
        provider.force_flush()
        provider.shutdown()
        assert len(tree(tmp_path)) == 6
        assert other.counts.received == 0
        assert len(_index(tmp_path)) == 3

    def test_a_trace_in_the_same_tree_writes_its_own_records(self, tmp_path: Path) -> None:
        before = trace._TRACER_PROVIDER
        with _provider(tmp_path) as provider:
            trace._TRACER_PROVIDER = provider
            try:
                records = Trace("swish", "1", tmp_path)
                records.insert_designer_or_coder_record("r", "p", "t", ActionType.DO_CODER)
                records.close()
            finally:
                trace._TRACER_PROVIDER = before
        assert len(tree(tmp_path)) == 3

    def test_two_processors_for_one_tree_write_it_once(self, tmp_path: Path) -> None:
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(tmp_path)))
        with KernelTracer("swish", "1", provider) as tracer, tracer.coder(prompt="p") as action:
            action.record(result="r")
        assert len(tree(tmp_path)) == 3
        assert tree(tmp_path)[_PROMPT] == "p"
        assert len(_index(tmp_path)) == 2

    def test_two_trees_get_one_each(self, tmp_path: Path) -> None:
        with _provider(tmp_path / "a") as provider:
            provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(tmp_path / "b")))
            with KernelTracer("swish", "1", provider) as tracer, tracer.coder(prompt="p"):
                pass
        assert tree(tmp_path / "a") == tree(tmp_path / "b")
        assert len(tree(tmp_path / "a")) == 3


class TestModelCalls:
    _CALL: ClassVar[dict[str, str | int]] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.model": "m",
        "gen_ai.input.messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": "asked"}]}]
        ),
        "gen_ai.output.messages": json.dumps(
            [
                {
                    "role": "assistant",
                    "parts": [
                        {"type": "reasoning", "content": "thought"},
                        {"type": "text", "content": "said"},
                    ],
                }
            ]
        ),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
    }

    def _call(self, provider: TracerProvider, **more: str) -> None:
        with provider.get_tracer("client").start_as_current_span("chat m") as span:
            span.set_attributes(self._CALL)
            if more:
                said = [{"role": "assistant", "parts": [{"type": "text", "content": more["said"]}]}]
                span.set_attribute("gen_ai.output.messages", json.dumps(said))

    def test_an_action_takes_from_them_what_it_was_not_given(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder() as action:
                with provider.get_tracer("t").start_as_current_span("something between"):
                    self._call(provider)
            assert isinstance(action.span, ReadableSpan)
            given = attributes_of(action.span)
        assert tree(tmp_path) == {
            _PROMPT: "asked",
            "swish/I1_S01_swish_DO_CODER_reasoning.txt": "thought",
            _RESULT: "said",
        }
        assert given["gen_ai.usage.input_tokens"] == 10
        assert given["gen_ai.usage.output_tokens"] == 5
        assert given["gen_ai.response.model"] == "m"
        assert given["kernel_trace.part.result"] == "said"

    @pytest.mark.parametrize("is_before", [True, False])
    def test_explicit_wins(self, tmp_path: Path, is_before: bool) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt="mine") as action:
                if is_before:
                    action.record(result="mine")
                self._call(provider)
                self._call(provider)
                if not is_before:
                    action.record(result="mine")
        assert tree(tmp_path)[_PROMPT] == "mine"
        assert tree(tmp_path)[_RESULT] == "mine"
        assert tree(tmp_path)["swish/I1_S01_swish_DO_CODER_reasoning.txt"] == "thought"

    def test_so_does_what_is_set_by_hand_between_two_calls(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder() as action:
                self._call(provider)
                action.span.set_attribute("kernel_trace.part.result", "mine")
                self._call(provider, said="later")
        assert tree(tmp_path)[_RESULT] == "mine"

    def test_the_last_that_succeeded_counts_and_all_are_in_the_index(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder() as action:
                self._call(provider, said="first")
                self._call(provider, said="second")
                with (
                    pytest.raises(TimeoutError),
                    provider.get_tracer("c").start_as_current_span("chat") as span,
                ):
                    span.set_attributes(self._CALL)
                    raise TimeoutError
            assert isinstance(action.span, ReadableSpan)
            assert attributes_of(action.span)["gen_ai.usage.input_tokens"] == 30
        assert tree(tmp_path)[_RESULT] == "second"
        assert [span.name for span in _index(tmp_path)].count("chat m") == 2
        assert [span.name for span in _index(tmp_path)].count("chat") == 1

    def test_it_is_whole_whatever_the_limits_as_far_as_the_call_is(self, tmp_path: Path) -> None:
        limits = SpanLimits(max_attribute_length=300)
        with _provider(tmp_path, limits=limits) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder():
                self._call(provider)
            with tracer.coder():
                self._call(provider, said="x" * 300)
        written = tree(tmp_path)
        assert written[_RESULT] == "said"
        assert _INCOMPLETE not in written
        assert "to 300 characters" in written[_INCOMPLETE.replace("S01", "S02")]

    def test_a_verifier_takes_tokens_and_no_texts(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
            with tracer.verifier() as check:
                self._call(provider)
                check.record(True)
        assert tree(tmp_path) == {}

    def test_a_call_outside_of_actions_changes_nothing(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider:
            self._call(provider)
            with KernelTracer("swish", "1", provider) as tracer, tracer.coder():
                pass
        assert tree(tmp_path)[_RESULT] == ""

    def test_actions_of_several_threads_keep_theirs_apart(self, tmp_path: Path) -> None:
        with _provider(tmp_path) as provider:

            def work(task: int) -> None:
                with KernelTracer("swish", str(task), provider) as tracer:
                    for step in range(20):
                        with tracer.coder():
                            self._call(provider, said=f"{task}.{step}")

            threads = [threading.Thread(target=work, args=(task,)) for task in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        written = tree(tmp_path)
        assert all(
            written[f"swish/I{task}_S{step + 1:02d}_swish_DO_CODER_result.txt"] == f"{task}.{step}"
            for task in range(8)
            for step in range(20)
        )


class TestShutdown:
    def test_what_ends_afterwards_is_counted_as_lost_and_raises_nothing(self, tmp_path: Path) -> None:
        provider = TracerProvider(shutdown_on_exit=False)
        processor = KernelTraceSpanProcessor(KernelTraceSpanExporter(tmp_path))
        provider.add_span_processor(processor)
        tracer = KernelTracer("swish", "1", provider)
        with tracer.coder(prompt="p"):
            provider.shutdown()
            processor.shutdown()
        with tracer.coder(prompt="p"):
            pass
        assert processor.exporter.counts.failed == 2
        assert processor.force_flush()
        assert set(tree(tmp_path)) == {_PROMPT}


def test_a_span_that_the_garbage_collector_ends_in_the_middle_of_ours_is_written(tmp_path: Path) -> None:
    with _provider(tmp_path) as provider:
        tracer = KernelTracer("swish", "1", provider)
        before = gc.get_threshold()
        gc.set_threshold(1)
        try:
            for _ in range(30):
                with tracer.coder(prompt="p") as action:
                    ring: list[object] = [KernelTracer("other", "2", provider).action("a").__enter__()]
                    ring.append(ring)
                    del ring
                    action.record(result="r")
        finally:
            gc.set_threshold(*before)
        tracer.close()
        gc.collect()
        [processor] = provider._active_span_processor._span_processors
        assert isinstance(processor, KernelTraceSpanProcessor)
        assert processor.exporter.counts.failed == 0
    assert len([path for path in tree(tmp_path) if path.startswith("swish/")]) == 90


def test_an_exception_that_strikes_between_our_lines_ends_no_recording(tmp_path: Path) -> None:
    """As Ctrl-C does: Python code of a signal handler runs between any two instructions."""
    with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:

        def interrupted() -> None:
            busy.__enter__()
            raise KeyboardInterrupt  # before it was left

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        with tracer.coder(prompt="p") as action:
            action.record(result="r")
        assert len(tree(tmp_path)) == 3
