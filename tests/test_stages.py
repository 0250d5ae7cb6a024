"""Stages: spans with times, memory and sizes, and no action."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry import trace as trace_api
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

import otel_kernel_trace
from otel_kernel_trace import KernelTracer, KernelTraceSpanExporter, KernelTraceSpanProcessor
from otel_kernel_trace.indexed import Passed, indexed_spans, whole_attributes
from otel_kernel_trace.stages.memory import most_of_this_process
from otel_kernel_trace.store import Store
from tests.spans import provider_of
from tests.tree import tree


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


def _given(span: ReadableSpan) -> Mapping[str, AttributeValue]:
    assert span.attributes is not None
    return span.attributes


def _span(seen: InMemorySpanExporter, name: str) -> ReadableSpan:
    [span] = [span for span in seen.get_finished_spans() if span.name == name]
    return span


def _parents(seen: InMemorySpanExporter) -> dict[str, str | None]:
    spans = seen.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans if span.context}
    return {span.name: names.get(span.parent.span_id) if span.parent else None for span in spans}


def _burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_stages_nest_under_what_is_at_work(tracer: KernelTracer, seen: InMemorySpanExporter) -> None:
    with tracer.verifier() as verification:
        with tracer.stage("compile"), tracer.stage("lower"):
            pass
        verification.record(True)
    with tracer.stage("measure"):
        pass
    tracer.close()
    assert _parents(seen) == {
        "VERIFY": "kernel_task",
        "compile": "VERIFY",
        "lower": "compile",
        "measure": "kernel_task",
        "kernel_task": None,
    }
    assert dict(_given(_span(seen, "lower"))).keys() >= {
        "kernel_trace.op_name",
        "kernel_trace.task_id",
        "kernel_trace.stage",
    }
    assert "kernel_trace.action_type" not in _given(_span(seen, "lower"))


def test_a_stage_takes_no_step_and_no_file(tmp_path: Path) -> None:
    with (
        provider_of(KernelTraceSpanExporter(tmp_path)) as provider,
        KernelTracer("o", "1", provider) as tracer,
    ):
        with tracer.stage("before"):
            pass
        with tracer.coder(prompt="p") as action:
            with tracer.stage("within"):
                pass
            assert action.step == 1
    assert sorted(tree(tmp_path)) == [
        "o/I1_S01_o_DO_CODER_prompt.txt",
        "o/I1_S01_o_DO_CODER_reasoning.txt",
        "o/I1_S01_o_DO_CODER_result.txt",
    ]


def test_processor_time_is_told_of_the_process_and_of_its_children(
    tracer: KernelTracer, seen: InMemorySpanExporter
) -> None:
    with tracer.stage("own"):
        _burn(0.03)
    with tracer.stage("children"):
        subprocess.run(
            [sys.executable, "-c", "while __import__('time').process_time() < 0.1: pass"], check=True
        )
    own, children = _given(_span(seen, "own")), _given(_span(seen, "children"))
    assert own["kernel_trace.stage.cpu_time"] >= 0.03  # type: ignore[operator]  # a float
    assert own["kernel_trace.stage.children_cpu_time"] == 0
    assert children["kernel_trace.stage.children_cpu_time"] >= 0.1  # type: ignore[operator]  # a float


def test_peak_memory_is_told_where_it_rose_and_is_not_made_up_elsewhere(
    tracer: KernelTracer, seen: InMemorySpanExporter
) -> None:
    size = 1 + max(most_of_this_process(), 100_000_000)
    with tracer.stage("large"):
        assert len(b"x" * size) == size
    with tracer.stage("small"):
        assert len(b"x" * 1000) == 1000
    assert int(_given(_span(seen, "large"))["kernel_trace.stage.peak_memory"]) >= size  # type: ignore[arg-type]
    assert "kernel_trace.stage.peak_memory" not in _given(_span(seen, "small"))


def test_sizes_are_those_of_texts_bytes_and_files(
    tmp_path: Path, tracer: KernelTracer, seen: InMemorySpanExporter
) -> None:
    file = tmp_path / "kernel.cu"
    file.write_bytes(b"12345")
    with tracer.stage("s", input="größe", output=b"1234") as stage:
        stage.input(file, 100)
        stage.output(memoryview(b"12"), bytearray(b"3"))
        stage.output(tmp_path, tmp_path / "missing", Path("a\0b"))
    with tracer.stage("no sizes") as stage:
        stage.output(tmp_path / "missing")
    given = _given(_span(seen, "s"))
    assert given["kernel_trace.stage.input_size"] == 7 + 5 + 100
    assert given["kernel_trace.stage.output_size"] == 4 + 2 + 1
    assert not any("size" in name for name in _given(_span(seen, "no sizes")))


def test_what_has_no_size_is_refused(tracer: KernelTracer) -> None:
    with pytest.raises(TypeError, match="has a size, not None"), tracer.stage("s") as stage:
        stage.input(None)  # type: ignore[arg-type]  # what is refused


def test_what_comes_after_the_work_is_no_part_of_its_time(
    tracer: KernelTracer, seen: InMemorySpanExporter
) -> None:
    with tracer.stage("s") as stage:
        stage.stop()
        stopped = time.time_ns()
        _burn(0.05)
        stage.output(5)
    span = _span(seen, "s")
    assert span.end_time is not None
    assert span.end_time <= stopped
    assert _given(span)["kernel_trace.stage.cpu_time"] < 0.05  # type: ignore[operator]  # a float
    assert _given(span)["kernel_trace.stage.output_size"] == 5


def test_an_exception_leaves_its_mark_and_passes_on(tracer: KernelTracer, seen: InMemorySpanExporter) -> None:
    with pytest.raises(ZeroDivisionError), tracer.stage("outer"), tracer.stage("inner"):
        _ = 1 / 0
    for name in ("outer", "inner"):
        span = _span(seen, name)
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == "ZeroDivisionError: division by zero"
        [event] = span.events
        assert event.attributes is not None
        stacktrace = str(event.attributes["exception.stacktrace"])
        assert "_ = 1 / 0" in stacktrace
        assert "stages.py" not in stacktrace.replace(__file__, "")
        assert not any(key.startswith("kernel_trace.part.") for key in _given(span))


def test_code_without_a_tracer_finds_the_task_that_it_works_for(
    tracer: KernelTracer, seen: InMemorySpanExporter
) -> None:
    with tracer.coder(), otel_kernel_trace.stage("autotune", input="x") as stage:
        stage.output(5)
    with tracer.stage("outer"), otel_kernel_trace.stage("inner"):
        pass
    tracer.close()
    assert _parents(seen)["autotune"] == "DO_CODER"
    assert _parents(seen)["inner"] == "outer"
    assert _given(_span(seen, "autotune"))["kernel_trace.task_id"] == "1"


def test_code_without_a_tracer_finds_it_through_other_spans_too(
    tracer: KernelTracer, provider: TracerProvider, seen: InMemorySpanExporter
) -> None:
    with tracer.coder(), provider.get_tracer("other").start_as_current_span("chat"):
        with otel_kernel_trace.stage("tool"):
            pass
    tracer.close()
    assert _parents(seen)["tool"] == "chat"


def test_without_a_task_nothing_is_recorded(provider: TracerProvider, seen: InMemorySpanExporter) -> None:
    with provider.get_tracer("other").start_as_current_span("else"), otel_kernel_trace.stage("s") as stage:
        stage.input("text")
        assert not stage.span.is_recording()
        assert trace_api.get_current_span().is_recording()
    assert [span.name for span in seen.get_finished_spans()] == ["else"]


def test_without_an_sdk_stages_do_nothing_and_load_nothing() -> None:
    program = """
import sys
from otel_kernel_trace import KernelTracer, stage
tracer = KernelTracer("o", "1")
with tracer.stage("a", input="x") as one, stage("b") as other:
    one.output(b"y")
    other.output(b"y")
heavy = ("opentelemetry.sdk", "otel_kernel_trace.stages.runs", "otel_kernel_trace.diagnostics")
print([name for name in sys.modules if name.startswith(heavy)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_a_command_inside_needs_is_loaded_before_a_stages_time_begins() -> None:
    program = """
import sys
from opentelemetry.sdk.trace import TracerProvider
from otel_kernel_trace import KernelTracer
tracer = KernelTracer("o", "1", TracerProvider(shutdown_on_exit=False))
with tracer.stage("compile"):
    before = set(sys.modules)
    tracer.run(["true"])
print(sorted(name for name in set(sys.modules) - before if "kernel_trace" in name))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_threads_that_take_the_context_nest_there(tracer: KernelTracer, seen: InMemorySpanExporter) -> None:
    def work(name: str) -> None:
        with otel_kernel_trace.stage(name):
            pass

    with tracer.stage("outer"), ThreadPoolExecutor(4) as pool:
        names = [f"s{number}" for number in range(20)]
        for done in [pool.submit(contextvars.copy_context().run, work, name) for name in names]:
            done.result()
    assert {_parents(seen)[name] for name in names} == {"outer"}


def test_asyncio_tasks_keep_their_stages_apart(tracer: KernelTracer, seen: InMemorySpanExporter) -> None:
    async def work(name: str) -> None:
        with tracer.stage(name):
            await asyncio.sleep(0)
            with tracer.stage(f"in {name}"):
                await asyncio.sleep(0)

    async def main() -> None:
        with tracer.stage("all"):
            await asyncio.gather(*(work(str(number)) for number in range(5)))

    asyncio.run(main())
    for number in range(5):
        assert _parents(seen)[str(number)] == "all"
        assert _parents(seen)[f"in {number}"] == str(number)


def test_a_forked_child_has_stages_of_its_own(tmp_path: Path) -> None:
    with provider_of() as provider:
        provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(tmp_path)))
        with KernelTracer("o", "1", provider) as tracer:
            with tracer.stage("outer"):
                _burn(0.01)
                child = os.fork()
                if not child:
                    with tracer.stage("in the child"):
                        pass
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
    spans = list(indexed_spans(Store(str(tmp_path)), Passed()))
    assert sorted(span.name for span in spans) == ["in the child", "kernel_task", "outer"]
    [inner] = [span for span in spans if span.name == "in the child"]
    outer = {span.context.span_id for span in spans if span.name == "outer" and span.context}
    assert inner.parent is not None
    assert {inner.parent.span_id} == outer
    assert _given(inner)["kernel_trace.stage.cpu_time"] >= 0  # type: ignore[operator]  # a float


def test_a_stage_that_a_fork_splits_tells_no_figures_in_the_child(tmp_path: Path) -> None:
    with provider_of() as provider:
        provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(tmp_path)))
        tracer = KernelTracer("o", "1", provider)
        with tracer.stage("split"):
            _burn(0.05)
            child = os.fork()
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        tracer.close()
    told = [
        _given(span).get("kernel_trace.stage.cpu_time")
        for span in indexed_spans(Store(str(tmp_path)), Passed())
        if span.name == "split"
    ]
    assert len(told) == 2
    assert told.count(None) == 1


def test_the_index_has_a_stage_whole_whatever_the_limits(tmp_path: Path) -> None:
    provider = TracerProvider(
        shutdown_on_exit=False, span_limits=SpanLimits(max_span_attribute_length=10, max_span_attributes=4)
    )
    provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(tmp_path, level="debug")))
    with KernelTracer("o", "1", provider, level="debug") as tracer:
        tracer.run(["sh", "-c", "echo 0123456789abcdef; yes | head -c 10000 >&2"])
    store = Store(str(tmp_path))
    [span] = [span for span in indexed_spans(store, Passed()) if span.name == "sh"]
    given = whole_attributes(span, store, Passed())
    assert given["kernel_trace.stage.stdout"] == "0123456789abcdef\n"
    assert given["kernel_trace.stage.stderr"] == "y\n" * 5000
    assert given["kernel_trace.stage"] == "sh"
