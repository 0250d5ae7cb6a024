"""Layer times of an engine, as TensorRT's profiler reports them."""

from __future__ import annotations

import json
import sys
import threading
from types import ModuleType

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from otel_kernel_trace import LayerProfiler
from otel_kernel_trace.builder.profiler import MOST_LAYERS, OTHER_LAYERS, LayerTime

tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")


def test_times_over_runs_are_on_the_span_when_it_ends() -> None:
    with tracer.start_as_current_span("run") as span:
        profiler = LayerProfiler()
        for attention in (2.0, 3.0, 10.0):
            profiler.report_layer_time("conv1 + relu1", 1.0)
            profiler.report_layer_time("attn_qkv", attention)
    expected = (
        LayerTime("conv1 + relu1", runs=3, mean=1.0, median=1.0, total=3.0, share=3 / 18),
        LayerTime("attn_qkv", runs=3, mean=5.0, median=3.0, total=15.0, share=15 / 18),
    )
    assert profiler.per_layer == expected
    assert isinstance(span, ReadableSpan)
    told = json.loads(str((span.attributes or {})["kernel_trace.layers"]))
    assert told == [
        {"layer": "conv1 + relu1", "runs": 3, "mean": 1.0, "median": 1.0, "total": 3.0, "share": 3 / 18},
        {"layer": "attn_qkv", "runs": 3, "mean": 5.0, "median": 3.0, "total": 15.0, "share": 15 / 18},
    ]


def test_each_span_has_its_own_and_the_profiler_all() -> None:
    profiler = LayerProfiler()
    told = []
    for time in (1.0, 2.0):
        with tracer.start_as_current_span("run") as span:
            profiler.report_layer_time("a", time)
        assert isinstance(span, ReadableSpan)
        told.append(json.loads(str((span.attributes or {})["kernel_trace.layers"]))[0]["total"])
    assert told == [1.0, 2.0]
    assert profiler.per_layer[0].total == 3.0


def test_close_puts_the_table_on_a_span_that_goes_on() -> None:
    span = tracer.start_span("run")
    with LayerProfiler() as profiler:
        with profiler.under(span):
            profiler.report_layer_time("a", 1)
    assert isinstance(span, ReadableSpan)
    assert "kernel_trace.layers" in (span.attributes or {})


@pytest.mark.parametrize("time", [None, "x", -1.0, float("nan"), float("inf"), object(), 10**400])
def test_what_is_no_time_is_counted_as_lost(time: object) -> None:
    profiler = LayerProfiler()
    profiler.report_layer_time("a", time)
    assert (profiler.per_layer, profiler.lost) == ((), 1)


@pytest.mark.parametrize("name", [None, b"\xff", "\ud800", "", "x" * 100_000, object()])
def test_any_name_is_one(name: object) -> None:
    with tracer.start_as_current_span("run"):
        profiler = LayerProfiler()
        profiler.report_layer_time(name, 1.5)
        profiler.flush()
    assert [(time.runs, time.share, profiler.lost) for time in profiler.per_layer] == [(1, 1.0, 0)]


def test_no_time_at_all_is_a_share_of_nothing() -> None:
    profiler = LayerProfiler()
    profiler.report_layer_time("a", 0.0)
    assert profiler.per_layer[0].share == 0.0


def test_layers_beyond_the_most_are_one() -> None:
    profiler = LayerProfiler()
    for number in range(MOST_LAYERS + 500):
        profiler.report_layer_time(f"layer {number}", 1.0)
    times = profiler.per_layer
    assert len(times) == MOST_LAYERS + 1
    assert (times[-1].layer, times[-1].runs) == (OTHER_LAYERS, 500)
    assert sum(time.share for time in times) == pytest.approx(1.0)


def test_many_threads_lose_nothing() -> None:
    profiler = LayerProfiler()

    def run() -> None:
        for _ in range(500):
            profiler.report_layer_time("a", 1.0)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert profiler.per_layer[0].runs == 4000


def test_where_tensorrt_is_imported_it_is_one_of_its_profilers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tensorrt")
    module.IProfiler = type("IProfiler", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorrt", module)
    assert isinstance(LayerProfiler(), module.IProfiler)
