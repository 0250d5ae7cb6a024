"""Metrics of actions, as the program's own ``MeterProvider`` sees them."""

from __future__ import annotations

import logging
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import opentelemetry.metrics._internal
import pytest
from opentelemetry.metrics import NoOpCounter, NoOpMeter, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, Metric
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import (
    ActionType,
    KernelTracer,
    KernelTraceSpanExporter,
    KernelTraceSpanProcessor,
    Trace,
    metrics,
)
from otel_kernel_trace.suspicion import Suspicion, encode
from tests.faults import small_disk
from tests.spans import action_span, provider_of
from tests.tree import tree

DURATION = "kernel_trace.action.duration"
RECORDS = "kernel_trace.records"
SPEEDUP = "kernel_trace.speedup"
STAGES = "kernel_trace.stage.duration"
DIAGNOSTICS = "kernel_trace.diagnostics"
SUSPICIONS = "kernel_trace.suspicions"
TOKENS = "kernel_trace.tokens"
VERIFICATIONS = "kernel_trace.verifications"

SUCCESS, FAILURE = SpanExportResult.SUCCESS, SpanExportResult.FAILURE


class Measured:
    """What a program's own metric reader has."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)

    def metrics(self) -> dict[str, Metric]:
        data = self._reader.get_metrics_data()
        return {
            metric.name: metric
            for of_resource in (data.resource_metrics if data else ())
            for of_scope in of_resource.scope_metrics
            if of_scope.scope.name == "otel_kernel_trace"
            for metric in of_scope.metrics
        }

    def counted(self, name: str) -> dict[str, object]:
        """Value by attribute values, in the order of the attributes' names; of a histogram count and sum."""
        metric = self.metrics().get(name)
        counted = {
            " ".join(str(value) for _, value in sorted((point.attributes or {}).items())): (
                (point.count, point.sum)
                if isinstance(point, HistogramDataPoint)
                else getattr(point, "value", None)
            )
            for point in (metric.data.data_points if metric else ())
        }
        return {key: value for key, value in counted.items() if value}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    """A ``MeterProvider`` as the program has set it, for this test alone."""
    measured = Measured()
    for names in ("_agents", "_stages", "_tools"):  # of other tests in this process
        monkeypatch.setattr(metrics, names, metrics._Names())
    monkeypatch.setattr(opentelemetry.metrics._internal, "_METER_PROVIDER", measured.provider)
    yield measured
    measured.provider.shutdown()


@contextmanager
def _provider(*log_dirs: Path) -> Iterator[TracerProvider]:
    provider = TracerProvider(shutdown_on_exit=False)
    for log_dir in log_dirs:
        provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(log_dir)))
    yield provider
    provider.shutdown()


def _verify(log_dir: Path, result: bool | str, profile: str | dict[str, object] | None = None) -> None:
    with _provider(log_dir) as provider, KernelTracer("swish", "1", provider) as tracer:
        with tracer.verifier() as verification:
            verification.record(result, profile=profile)


# --- What is measured ---------------------------------------------------------------------------


def test_durations_by_action_type_and_whether_it_failed(tmp_path: Path, measured: Measured) -> None:
    with _provider(tmp_path) as provider:
        for action_type, seconds, status in (
            ("DO_CODER", 2, StatusCode.UNSET),
            ("DO_CODER", 3, StatusCode.OK),
            ("VERIFY", 40, StatusCode.ERROR),
            ("tuner", 0.5, StatusCode.UNSET),
        ):
            span = provider.get_tracer("any").start_span(
                "a", attributes={"kernel_trace.action_type": action_type}, start_time=10**18
            )
            span.set_status(status)
            span.end(10**18 + int(seconds * 1e9))
    assert measured.counted(DURATION) == {
        "DO_CODER": (2, 5.0),
        "_OTHER VERIFY": (1, 40.0),
        "tuner": (1, 0.5),
    }
    metric = measured.metrics()[DURATION]
    assert metric.unit == "s"
    keys = {key for point in metric.data.data_points for key in point.attributes or ()}
    assert keys == {"error.type", "kernel_trace.action_type"}


def test_durations_of_live_work(tmp_path: Path, measured: Measured) -> None:
    with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
        with tracer.designer(), tracer.conductor(prompt="?"):
            pass
        with pytest.raises(ZeroDivisionError), tracer.coder():
            _ = 1 / 0
    assert set(measured.counted(DURATION)) == {"DO_DESIGNER", "CHECK_DESIGNER", "_OTHER DO_CODER"}


def test_verifications_by_outcome(tmp_path: Path, measured: Measured) -> None:
    for result in (True, "passed", False, "False", "segmentation fault"):
        _verify(tmp_path, result)
    assert measured.counted(VERIFICATIONS) == {"passed": 2, "failed": 3}


def test_speedups_of_kernels_that_passed(tmp_path: Path, measured: Measured) -> None:
    _verify(tmp_path, True, {"speedup": 2.5, "time": 1})
    _verify(tmp_path, True, '{"speedup": 1}')
    _verify(tmp_path, False, {"speedup": 100})
    _verify(tmp_path, True)
    assert measured.counted(SPEEDUP) == {"": (2, 3.5)}


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param('{"speedup": NaN}', id="NaN"),
        pytest.param('{"speedup": Infinity}', id="infinity"),
        pytest.param('{"speedup": -1}', id="negative"),
        pytest.param('{"speedup": true}', id="a bool"),
        pytest.param('{"speedup": {"speedup": 2}}', id="nested"),
        pytest.param('["speedup", 2]', id="a list"),
        pytest.param('{"speedup": 2', id="cut"),
        pytest.param("speedup 2x", id="prose"),
        pytest.param('{"speedup": ' + "[" * 100_000, id="deep"),
        pytest.param('{"speedup": 2, "log": "' + "x" * 1_000_000 + '"}', id="1 MB"),
        pytest.param('{"speedup": 1' + "0" * 5000 + "}", id="more digits than Python reads"),
        pytest.param('{"speedup": 1e999}', id="beyond a float"),
        pytest.param(
            '{"speedup": 1' + "0" * 400 + "}",
            id="an int beyond a float",
        ),
    ],
)
def test_a_profile_without_a_usable_number_is_no_speedup_and_no_harm(
    tmp_path: Path, measured: Measured, profile: str
) -> None:
    exporter = KernelTraceSpanExporter(tmp_path)
    given = {"kernel_trace.verify.result": "True", "kernel_trace.verify.profile": profile}
    assert exporter.export([action_span("VERIFY", parts={"error_log": "x"}, more=given)]) is SUCCESS
    assert measured.counted(SPEEDUP) == {}
    assert measured.counted(VERIFICATIONS) == {"passed": 1}
    assert measured.counted(RECORDS) == {"written": 1}


def test_tokens_of_the_model_calls_inside_an_action(tmp_path: Path, measured: Measured) -> None:
    with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider) as tracer:
        client = provider.get_tracer("client")
        for agent in (tracer.designer(), tracer.coder()):
            with agent:
                for tokens in (100, 20):
                    call: dict[str, AttributeValue] = {
                        "gen_ai.operation.name": "chat",
                        "gen_ai.usage.input_tokens": tokens,
                        "gen_ai.usage.output_tokens": 1,
                    }
                    client.start_span("chat", attributes=call).end()
        client.start_span("chat", attributes=call).end()  # no action's
    assert measured.counted(TOKENS) == {
        "input DO_DESIGNER": 120,
        "output DO_DESIGNER": 2,
        "input DO_CODER": 120,
        "output DO_CODER": 2,
    }


@pytest.mark.parametrize(
    "tokens",
    [
        "many",
        -5,
        True,
        1.5,
        [7],
        pytest.param(
            2**63,
        ),
    ],
)
def test_tokens_that_are_no_number_are_not_counted(
    tmp_path: Path, measured: Measured, tokens: AttributeValue
) -> None:
    with _provider(tmp_path) as provider:
        given = {"kernel_trace.action_type": "DO_CODER", "gen_ai.usage.input_tokens": tokens}
        provider.get_tracer("any").start_span("a", attributes=given).end()
    assert measured.counted(TOKENS) == {}
    assert measured.counted(RECORDS) == {"written": 1}


def _stage(provider: TracerProvider, name: str, seconds: float, **more: Any) -> None:
    """A stage as its span is, with its attributes set by hand."""
    given = {"kernel_trace.op_name": "swish", "kernel_trace.task_id": "1", "kernel_trace.stage": name}
    span = provider.get_tracer("any").start_span(name, attributes=given, start_time=10**18)
    for diagnostic in more.get("diagnostics", ()):
        span.add_event("kernel_trace.diagnostic", diagnostic)
    span.set_status(more.get("status", StatusCode.UNSET))
    span.end(10**18 + int(seconds * 1e9))


def _diagnostic(tool: str, severity: str, category: AttributeValue) -> dict[str, AttributeValue]:
    return {
        "kernel_trace.diagnostic.tool": tool,
        "kernel_trace.diagnostic.severity": severity,
        "kernel_trace.diagnostic.category": category,
    }


def test_stages_by_name_and_whether_they_failed(tmp_path: Path, measured: Measured) -> None:
    with _provider(tmp_path, tmp_path / "another") as provider:
        _stage(provider, "compile", 2)
        _stage(provider, "compile", 1)
        _stage(provider, "compile", 5, status=StatusCode.ERROR)
        _stage(provider, "run", 0.25)
    assert measured.counted(STAGES) == {"compile": (2, 3.0), "_OTHER compile": (1, 5.0), "run": (1, 0.25)}
    assert measured.metrics()[STAGES].unit == "s"
    assert measured.counted(DURATION) == {}


def test_a_task_and_a_model_call_are_no_stages(tmp_path: Path, measured: Measured) -> None:
    with _provider(tmp_path) as provider, KernelTracer("swish", "1", provider):
        provider.get_tracer("client").start_span("c", attributes={"gen_ai.operation.name": "chat"}).end()
    assert measured.counted(STAGES) == {}


def test_diagnostics_of_actions_and_stages(tmp_path: Path, measured: Measured) -> None:
    undefined = _diagnostic("nvcc", "error", "undefined_name")
    unused = _diagnostic("nvcc", "warning", "other")
    with _provider(tmp_path) as provider:
        _stage(provider, "compile", 1, diagnostics=[undefined, unused, unused])
        span = provider.get_tracer("any").start_span("a", attributes={"kernel_trace.action_type": "VERIFY"})
        span.add_event("kernel_trace.diagnostic", undefined)
        span.add_event("another", unused)
        span.end()
    assert measured.counted(DIAGNOSTICS) == {"undefined_name error nvcc": 2, "other warning nvcc": 2}


def test_a_diagnostic_of_a_strangers_is_of_few_time_series(tmp_path: Path, measured: Measured) -> None:
    with _provider(tmp_path) as provider:
        for number in range(120):
            _stage(provider, f"s{number}", 1, diagnostics=[_diagnostic(f"t{number}", f"s{number}", number)])
        _stage(provider, "a\ud800b", 1, diagnostics=[{}])
    assert len(measured.counted(STAGES)) <= 102
    counted = measured.counted(DIAGNOSTICS)
    assert len(counted) <= 102
    assert {name.rpartition(" ")[0] for name in counted} == {"_OTHER _OTHER"}
    assert all(name.encode() for name in counted)


def test_suspicions_by_kind(tmp_path: Path, measured: Measured) -> None:
    hints = encode([Suspicion("zero_time", "r"), Suspicion("library_call", "r"), Suspicion("zero_time", "q")])
    exporter = KernelTraceSpanExporter(tmp_path)
    for text in (hints, "[]", '[{"kind": "made up", "reason": "r"}]', "[" * 100_000, 7):
        exporter.export([action_span("VERIFY", more={"kernel_trace.suspicions": text})])
    assert measured.counted(SUSPICIONS) == {"zero_time": 2, "library_call": 1}


def test_records_of_a_trace(tmp_path: Path, measured: Measured) -> None:
    trace = Trace("swish", "1", tmp_path)
    trace.insert_designer_or_coder_record("r", "p", "", ActionType.DO_CODER)
    trace.insert_verifier_record("True", "", '{"speedup": 2}')
    assert measured.counted(RECORDS) == {"written": 2}
    assert measured.counted(VERIFICATIONS) == {"passed": 1}
    assert measured.counted(SPEEDUP) == {"": (1, 2.0)}


def test_records_that_can_not_be_written(tmp_path: Path, measured: Measured) -> None:
    exporter = KernelTraceSpanExporter(tmp_path)
    (tmp_path / "swish").touch()  # where a folder should be
    assert exporter.export([action_span(), action_span(op_name="relu")]) is FAILURE
    (tmp_path / "swish").unlink()
    assert exporter.export([action_span()]) is SUCCESS
    exporter.shutdown()
    assert exporter.export([action_span()]) is FAILURE
    assert measured.counted(RECORDS) == {"written": 2, "failed": 2}


def test_records_for_which_there_is_no_room(tmp_path: Path, measured: Measured) -> None:
    with small_disk(tmp_path / "disk") as disk:
        exporter = KernelTraceSpanExporter(disk)
        assert exporter.export([action_span(parts={"prompt": "x" * 1_000_000})]) is FAILURE
        assert exporter.export([action_span(parts={"prompt": "x"})]) is SUCCESS
        assert measured.counted(RECORDS) == {"written": 1, "failed": 1}


def test_actions_are_measured_though_they_can_not_be_written(tmp_path: Path, measured: Measured) -> None:
    (tmp_path / "swish").touch()
    _verify(tmp_path, False)
    assert measured.counted(RECORDS) == {"failed": 1}
    assert measured.counted(VERIFICATIONS) == {"failed": 1}
    assert set(measured.counted(DURATION)) == {"_OTHER VERIFY"}


def test_an_action_that_is_written_to_two_trees_is_measured_once(tmp_path: Path, measured: Measured) -> None:
    with _provider(tmp_path / "1", tmp_path / "2") as provider:
        with KernelTracer("swish", "1", provider) as tracer, tracer.verifier() as verification:
            verification.record(True)
    assert measured.counted(RECORDS) == {"written": 2}
    assert measured.counted(VERIFICATIONS) == {"passed": 1}


def test_processor_and_exporter_of_one_tree_measure_once(tmp_path: Path, measured: Measured) -> None:
    exporter = KernelTraceSpanExporter(tmp_path)
    with provider_of(exporter) as provider:
        provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(tmp_path)))
        with KernelTracer("swish", "1", provider) as tracer, tracer.verifier() as verification:
            verification.record(True)
    assert measured.counted(RECORDS) == {"written": 1}
    assert measured.counted(VERIFICATIONS) == {"passed": 1}


# --- Few time series ----------------------------------------------------------------------------


def test_agents_of_however_many_names_are_few_time_series(tmp_path: Path, measured: Measured) -> None:
    exporter = KernelTraceSpanExporter(tmp_path)
    names = [*(f"agent {number}" for number in range(150)), "x" * 5000]
    spans = [action_span(name, op_name=name, task_id=name) for name in names]
    assert exporter.export(spans) is SUCCESS
    durations = measured.counted(DURATION)
    assert 2 < len(durations) <= 101
    assert "_OTHER" in durations
    assert len(measured.counted(RECORDS)) == 1


def test_designers_coders_and_verifiers_are_told_apart_whoever_came_before(
    tmp_path: Path, measured: Measured
) -> None:
    exporter = KernelTraceSpanExporter(tmp_path)
    exporter.export([action_span(f"agent {number}") for number in range(150)])
    exporter.export([action_span("DO_CODER"), action_span("VERIFY")])
    assert {"DO_CODER", "VERIFY"} <= set(measured.counted(DURATION))


def test_an_agents_name_that_is_no_text_can_be_told(tmp_path: Path, measured: Measured) -> None:
    KernelTraceSpanExporter(tmp_path).export([action_span("a\ud800b")])
    [name] = measured.counted(DURATION)
    assert name.encode()


# --- Whatever the program has ---------------------------------------------------------------------


def test_without_a_meter_provider_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    script = (
        "import sys; from otel_kernel_trace import ActionType, Trace; "
        "Trace('swish', '1', sys.argv[1]).insert_designer_or_coder_record('', 'p', '', ActionType.DO_CODER); "
        "assert 'opentelemetry.sdk.metrics' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60)
    assert tree(tmp_path)["swish/I1_S01_swish_DO_CODER_prompt.txt"] == "p"


def test_with_metrics_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opentelemetry.metrics._internal, "_METER_PROVIDER", NoOpMeterProvider())
    assert KernelTraceSpanExporter(tmp_path).export([action_span()]) is SUCCESS


class FailingCounter(NoOpCounter):
    def add(self, *_: object, **__: object) -> None:
        raise RuntimeError("somebody else's")


class FailingMeter(NoOpMeter):
    def create_counter(self, name: str, unit: str = "", description: str = "") -> FailingCounter:
        return FailingCounter(name)


class FailingProvider(NoOpMeterProvider):
    def get_meter(self, name: str, *_: object, **__: object) -> FailingMeter:
        return FailingMeter(name)


def test_a_meter_provider_that_fails_costs_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(opentelemetry.metrics._internal, "_METER_PROVIDER", FailingProvider())
    exporter = KernelTraceSpanExporter(tmp_path)
    caplog.set_level(logging.CRITICAL)
    assert exporter.export([action_span(), action_span()]) is SUCCESS
    assert exporter.counts.written == 2


# The SDK's instruments have locks that it makes anew in no forked child, and that the garbage
# collector may find held in its own thread.

_FORK = """
import os, signal, sys, threading, time
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from otel_kernel_trace import KernelTracer, configure

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
tracer = KernelTracer("swish", "1", configure(sys.argv[1]))

def act():
    with tracer.coder(prompt="p"):
        pass

def for_ever(work):
    while True:
        work()

act()
for work in (act, reader.get_metrics_data):
    threading.Thread(target=for_ever, args=(work,), daemon=True).start()
for _ in range(40):
    child = os.fork()
    if not child:
        act()
        os._exit(0)
    deadline = time.monotonic() + 2
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os._exit(1)
        time.sleep(0.001)
os._exit(0)
"""

_GARBAGE = """
import faulthandler, gc, sys
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from otel_kernel_trace import KernelTracer, configure

faulthandler.dump_traceback_later(5, exit=True)
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
provider = configure(sys.argv[1])

def abandoned(tracer):
    with tracer.coder(prompt="p"):
        yield

gc.disable()
gc.freeze()
for number in range(300):
    gc.collect()
    work = abandoned(KernelTracer("swish", "1", provider))
    next(work)
    circle = [work]
    circle.append(circle)
    del work, circle
    # Collected that many allocations after: at some time or other in the middle of this.
    gc.set_threshold(gc.get_count()[0] + number)
    gc.enable()
    reader.get_metrics_data()
    gc.disable()
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            _FORK,
            id="in a forked child",
        ),
        pytest.param(
            _GARBAGE,
            id="by the garbage collector",
        ),
    ],
)
def test_an_action_ends_though_metrics_are_being_read(tmp_path: Path, script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0


_ENDPOINT = """
import sys
from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from otel_kernel_trace import KernelTracer, configure
from prometheus_client import start_http_server

log_dir, when = sys.argv[1:]
if when == "before":
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
provider = configure(log_dir)
if when == "after":
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
server, _ = start_http_server(0, addr="127.0.0.1")
with KernelTracer("swish", "1") as tracer:
    with tracer.coder(prompt="p"):
        tokens = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 12}
        provider.get_tracer("client").start_span("chat", attributes=tokens).end()
    with tracer.verifier() as verification:
        verification.record(True, profile={"speedup": 2.5})
    with tracer.verifier() as verification:
        verification.record(False, "wrong")
    compile = {"kernel_trace.op_name": "swish", "kernel_trace.task_id": "1", "kernel_trace.stage": "compile"}
    with provider.get_tracer("any").start_as_current_span("compile", attributes=compile) as stage:
        stage.add_event("kernel_trace.diagnostic", {
            "kernel_trace.diagnostic.tool": "ptxas",
            "kernel_trace.diagnostic.severity": "error",
            "kernel_trace.diagnostic.category": "resource",
        })
    hints = {
        "kernel_trace.action_type": "VERIFY",
        "kernel_trace.suspicions": '[{"kind": "other_stream", "reason": "r"}]',
    }
    provider.get_tracer("any").start_span("v", attributes=hints).end()
print(server.server_port, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_prometheus_endpoint_whenever_the_meter_provider_is_set(tmp_path: Path, when: str) -> None:
    pytest.importorskip(
        "opentelemetry.exporter.prometheus", reason="opentelemetry-exporter-prometheus is not installed"
    )
    with subprocess.Popen(
        [sys.executable, "-c", _ENDPOINT, str(tmp_path), when],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        port = int(program.stdout.readline())
        http = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with http.open(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            page = answer.read().decode()
        program.communicate(timeout=20)
    assert program.returncode == 0
    found = {}
    for line in page.splitlines():
        if line.startswith("kernel_trace_"):
            name, _, rest = line.partition("{")
            labels, _, value = rest.rpartition("} ")
            given = [label for label in labels.split(",") if not label.endswith('=""')]
            own = sorted(label for label in given if not label.startswith("otel_scope_"))
            found[f"{name}{{{','.join(own)}}}"] = float(value)
    coder = 'kernel_trace_action_type="DO_CODER"'
    assert found['kernel_trace_records_total{kernel_trace_outcome="written"}'] == 4
    assert found['kernel_trace_verifications_total{kernel_trace_outcome="passed"}'] == 1
    assert found['kernel_trace_verifications_total{kernel_trace_outcome="failed"}'] == 1
    assert found["kernel_trace_speedup_sum{}"] == 2.5
    assert found['kernel_trace_stage_duration_seconds_count{kernel_trace_stage="compile"}'] == 1
    assert found['kernel_trace_suspicions_total{kernel_trace_suspicion_kind="other_stream"}'] == 1
    of_ptxas = (
        'kernel_trace_diagnostic_category="resource",kernel_trace_diagnostic_severity="error",'
        'kernel_trace_diagnostic_tool="ptxas"'
    )
    assert found[f"kernel_trace_diagnostics_total{{{of_ptxas}}}"] == 1
    assert found[f'kernel_trace_tokens_total{{gen_ai_token_type="input",{coder}}}'] == 12
    assert found[f"kernel_trace_action_duration_seconds_count{{{coder}}}"] == 1
    assert found[f'kernel_trace_action_duration_seconds_bucket{{{coder},le="1800.0"}}'] == 1


@pytest.mark.parametrize("way", ["trace", "tracer", "exporter"])
@pytest.mark.parametrize("level", ["error", "off"])
def test_verdicts_count_at_every_level_but_off(
    measured: Measured, tmp_path: Path, way: str, level: str
) -> None:
    exporter = KernelTraceSpanExporter(tmp_path, level=level)
    if way == "trace":
        trace = Trace("o", "1", tmp_path, level=level)
        for verdict in ("True", "False"):
            trace.insert_verifier_record(verdict, "", "")
    with provider_of(exporter) as provider:
        tracer = KernelTracer("o", "1", provider, level=level if way == "tracer" else None)
        for is_right in (True, False) if way != "trace" else ():
            with tracer.verifier() as check:
                check.record(is_right)
    assert measured.counted(VERIFICATIONS) == ({} if level == "off" else {"passed": 1, "failed": 1})
    # Of these only the one that failed is a record to be written.
    assert measured.counted(RECORDS) == ({} if level == "off" else {"written": 1})
