"""``configure``: the processor in the provider that is there, once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.util._once import Once

from otel_kernel_trace import KernelTracer, KernelTraceSpanExporter, KernelTraceSpanProcessor, configure
from otel_kernel_trace.configuration import attach
from tests.tree import tree


@pytest.fixture
def no_global_provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    yield
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()


def _provider(**arguments: object) -> TracerProvider:
    return TracerProvider(shutdown_on_exit=False, **arguments)  # type: ignore[arg-type]  # each test's own


def _processors(provider: TracerProvider) -> Sequence[SpanProcessor]:
    return provider._active_span_processor._span_processors


def _act(provider: trace.TracerProvider | None = None) -> None:
    with KernelTracer("swish", "1", provider) as tracer, tracer.coder(prompt="p") as action:
        action.record(result="r")


@pytest.mark.usefixtures("no_global_provider")
class TestGlobalProvider:
    def test_one_is_made_where_there_is_none(self, tmp_path: Path) -> None:
        before = trace.get_tracer("got before")
        provider = configure(tmp_path)
        assert trace.get_tracer_provider() is provider
        _act()
        span = before.start_span(
            "a", attributes={"kernel_trace.action_type": "x", "kernel_trace.part.y": "z"}
        )
        span.end()
        assert len(tree(tmp_path)) == 4

    def test_the_one_that_is_there_is_used(self, tmp_path: Path) -> None:
        mine = _provider()
        trace.set_tracer_provider(mine)
        assert configure(tmp_path) is mine

    def test_one_that_takes_no_processors_is_told(self, tmp_path: Path) -> None:
        trace.set_tracer_provider(trace.NoOpTracerProvider())
        with pytest.raises(TypeError, match="NoOpTracerProvider"):
            configure(tmp_path)

    def test_the_hook_does_nothing_where_no_folder_is_named(self) -> None:
        mine = _provider()
        trace.set_tracer_provider(mine)
        attach()
        assert _processors(mine) == ()

    def test_the_hook_adds_the_processor(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR", str(tmp_path))
        mine = _provider()
        trace.set_tracer_provider(mine)
        attach()
        attach()
        configure()
        _act()
        assert len(_processors(mine)) == 1
        assert len(tree(tmp_path)) == 3

    def test_the_hook_leaves_the_place_of_a_provider_to_the_program(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR", str(tmp_path))
        attach()
        mine = _provider()
        trace.set_tracer_provider(mine)
        assert trace.get_tracer_provider() is mine
        assert "configure()" in caplog.text


def test_once_however_often_and_from_however_many_threads(tmp_path: Path) -> None:
    provider = _provider()
    threads = [
        threading.Thread(target=configure, args=(tmp_path,), kwargs={"tracer_provider": provider})
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert configure(f"{tmp_path}/", tracer_provider=provider) is provider
    assert len(_processors(provider)) == 1


def test_one_that_was_added_by_hand_counts(tmp_path: Path) -> None:
    provider = _provider()
    mine = KernelTraceSpanProcessor(KernelTraceSpanExporter(tmp_path))
    provider.add_span_processor(mine)
    configure(tmp_path, tracer_provider=provider)
    assert _processors(provider) == (mine,)


def test_another_tree_gets_its_own(tmp_path: Path) -> None:
    provider = _provider()
    configure(tmp_path / "a", tracer_provider=provider)
    configure(tmp_path / "b", tracer_provider=provider)
    _act(provider)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert len(tree(tmp_path / "a")) == 3


def test_options_are_the_exporters(tmp_path: Path) -> None:
    provider = configure(tmp_path, tracer_provider=_provider(), layout="aikg", file_mode=0o600)
    _act(provider)
    [prompt] = (tmp_path / "swish").glob("*DoCoder_prompt.txt")
    assert prompt.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ValueError, match="layout"):
        configure(tmp_path, tracer_provider=provider, layout="none such")


def test_it_stands_before_processors_that_never_come_back(tmp_path: Path) -> None:
    class Deadlocked(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            threading.Event().wait()
            return SpanExportResult.SUCCESS

        def shutdown(self) -> None:
            pass

    provider = _provider()
    provider.add_span_processor(SimpleSpanProcessor(Deadlocked()))
    configure(tmp_path, tracer_provider=provider)
    threading.Thread(target=_act, args=(provider,), daemon=True).start()
    for _ in range(200):
        if len(tree(tmp_path)) == 3:
            break
        threading.Event().wait(0.02)
    assert len(tree(tmp_path)) == 3


class TestSampling:
    @pytest.mark.parametrize("sampler", [ALWAYS_OFF, ParentBased(ALWAYS_OFF), TraceIdRatioBased(0.0)])
    def test_spans_made_by_hand_and_model_calls_are_on_disk_too(
        self, tmp_path: Path, sampler: object
    ) -> None:
        backend = InMemorySpanExporter()
        provider = _provider(sampler=sampler)
        provider.add_span_processor(SimpleSpanProcessor(backend))
        got_before = provider.get_tracer("by hand")
        configure(tmp_path, tracer_provider=provider)
        has_tracers = hasattr(provider, "_tracers")  # SDKs before 1.40 do not know those they gave out
        tracer = got_before if has_tracers else provider.get_tracer("by hand")
        given = {
            "kernel_trace.op_name": "o",
            "kernel_trace.task_id": "1",
            "kernel_trace.action_type": "DO_CODER",
            "kernel_trace.part.prompt": "p",
        }
        with tracer.start_as_current_span("a", attributes=given):
            with tracer.start_as_current_span("chat", attributes={"gen_ai.request.model": "m"}) as call:
                said = '[{"role": "assistant", "parts": [{"type": "text", "content": "said"}]}]'
                call.set_attribute("gen_ai.output.messages", said)
        assert tree(tmp_path)["o/I1_S01_o_DO_CODER_prompt.txt"] == "p"
        assert tree(tmp_path)["o/I1_S01_o_DO_CODER_result.txt"] == "said"
        assert backend.get_finished_spans() == ()

    def test_the_samplers_own_attributes_and_share_stay(self, tmp_path: Path) -> None:
        backend = InMemorySpanExporter()
        provider = _provider(sampler=TraceIdRatioBased(0.5))
        provider.add_span_processor(SimpleSpanProcessor(backend))
        configure(tmp_path, tracer_provider=provider)
        configure(tmp_path, tracer_provider=provider)
        assert provider.sampler.get_description() == "RecordingSampler{TraceIdRatioBased{0.5}}"
        for number in range(200):
            provider.get_tracer("t").start_span("a", attributes={"n": number}).end()
        assert 60 < len(backend.get_finished_spans()) < 140
