"""Beside real backends and a real Collector both views are whole, and each leads to the other.

What is looked at is what they tell of what they were sent, and the tree; never the spans of this process.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import format_span_id
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import (
    ActionType,
    KernelTracer,
    KernelTraceSpanExporter,
    LinkedSpanExporter,
    Trace,
    configure,
)
from tests import components
from tests.components import Backend, Collector, Jaeger, Phoenix, environment, free_ports, resource
from tests.test_components import PROTOCOLS, otlp_exporter
from tests.tree import raw_tree, tree

backend = components.backend

Story = Callable[[TracerProvider], None]
"""What a program does."""

PART = "kernel_trace.part."
LONG = "a line of a long prompt, \N{GREEK SMALL LETTER LAMDA}\r\n" * 100
EXAMPLE = Path(__file__).parents[1] / "examples" / "generate_kernel.py"


@contextmanager
def program(
    log_dir: Path | None,
    *exporters: SpanExporter,
    service: str = "tests",
    layout: str | None = None,
    sampler: Sampler | None = None,
    limits: SpanLimits | None = None,
) -> Iterator[TracerProvider]:
    """The provider of a program that has a tree, and sends what it did to exporters in the end."""
    provider = TracerProvider(
        sampler=sampler, resource=Resource(resource(service)), span_limits=limits, shutdown_on_exit=False
    )
    if log_dir is not None:
        configure(log_dir, tracer_provider=provider, layout=layout)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=60_000))
    try:
        yield provider
    finally:
        provider.shutdown()


def command(*arguments: object) -> str:
    """What otel-kernel-trace says, which succeeds."""
    pytest.importorskip("click")
    done = subprocess.run(
        [sys.executable, "-c", "from otel_kernel_trace.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def value_of(told: Mapping[str, Any]) -> object:
    """An attribute's value in OTLP JSON."""
    [(kind, value)] = told.items()
    return int(value) if kind == "intValue" else value


def attributes_of(span: Mapping[str, Any]) -> dict[str, object]:
    """Attributes of a span in OTLP JSON."""
    return {pair["key"]: value_of(pair["value"]) for pair in span.get("attributes", [])}


def index(log_dir: Path) -> dict[str, dict[str, Any]]:
    """Spans that have ended, by id, as they stand in the index of a tree."""
    found = {}
    for shard in Path(log_dir, ".kernel_trace", "index").glob("*.jsonl"):
        for line in shard.read_bytes().splitlines():
            [[span]] = (s["spans"] for r in json.loads(line)["resourceSpans"] for s in r["scopeSpans"])
            if "endTimeUnixNano" in span:
                found[span["spanId"]] = span
    return found


def referenced(attributes: Mapping[str, object], log_dir: Path) -> dict[str, bytes]:
    """The files to which attributes refer, by the attribute's name; fails if one is not what they say."""
    found = {}
    for key, sha256 in attributes.items():
        if key.endswith(".sha256"):
            name = key.removesuffix(".sha256")
            content = Path(log_dir, str(attributes[f"{name}.path"])).read_bytes()
            assert sha256 == hashlib.sha256(content).hexdigest(), key
            assert attributes[f"{name}.size"] == len(content), key
            found[name] = content
    return found


def act(provider: trace.TracerProvider, prompt: str = "asked", result: str = "answered") -> None:
    with KernelTracer("swish", "1", provider) as tracer, tracer.coder(prompt=prompt) as action:
        action.record(result=result)


# What programs do


def reply(code: str, description: str) -> str:
    return json.dumps({"code": code, "description": description})


def a_task(provider: TracerProvider, op_name: str = "swish") -> None:
    """Actions of all kinds, with texts long and short."""
    with KernelTracer(op_name, "1", provider) as tracer:
        with tracer.designer(prompt=LONG) as design:
            design.record(result=reply("x = 1\n" * 500, "why \u2028 so"), reasoning="thought")
        with tracer.conductor(prompt=f"Is it good?\n{LONG}", judges=design) as verdict:
            verdict.record(result='{"result": 0}')
        with tracer.coder(prompt="\0 a prompt \r with \n\n line ends \U0001f680") as action:
            fenced = f"Here it is:\n```json\n{reply('kernel()', 'short')}\n```\n"
            action.record(fenced, "", plan="a plan\n" * 500, **{"a/b": "custom", "空": "名" * 2000})
        with tracer.verifier(framework="torch", impl_type="triton") as check:
            sources = {"reference": "ref()", "implementation": "kernel()\n" * 400, "script": "compare()"}
            check.record(False, "it fails\n" * 300, {"speedup": 0.5}, **sources)
        for number in range(3):
            with tracer.conductor(prompt=f"What is wrong? ({number})", judges=check) as verdict:
                verdict.record(result=f"This: {number}", reasoning="looked at it")
        with tracer.coder(action_type=ActionType.FIX_CODER):
            asked = [{"role": "user", "parts": [{"type": "text", "content": LONG}]}]
            said = [{"role": "assistant", "parts": [{"type": "text", "content": "mended"}]}]
            given = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(asked)}
            with provider.get_tracer("a client").start_as_current_span("chat", attributes=given) as call:
                call.set_attribute("gen_ai.output.messages", json.dumps(said))
        with tracer.action("auto tuner\N{LATIN SMALL LETTER E WITH ACUTE}") as tuner:
            tuner.record(result="BLOCK = 128")
        with tracer.verifier() as check:
            check.record(True)


def again(provider: TracerProvider) -> None:
    a_task(provider)
    a_task(provider)


def at_once(provider: TracerProvider) -> None:
    """Two tasks, whose actions end in another order than they began."""
    fourth = threading.Barrier(4, timeout=30)

    def work(tracer: KernelTracer, number: int) -> None:
        with tracer.coder(prompt=f"asked {number}") as action:
            fourth.wait()
            time.sleep(0.01 * (4 - number))
            action.record(result=reply(f"kernel {number}", "at once"), reasoning=LONG * number)
        with tracer.conductor(prompt=f"judge {number}", judges=action) as verdict:
            verdict.record(result=f"good {number}")

    tracers = [KernelTracer(op_name, "1", provider) for op_name in ("softmax", "a/b")]
    threads = [threading.Thread(target=work, args=(tracers[n % 2], n)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for tracer in tracers:
        tracer.close()


def an_exception(provider: TracerProvider) -> None:
    """Its error log is a traceback, which no attribute has."""
    with KernelTracer("gelu", "1", provider) as tracer:
        with pytest.raises(RuntimeError), tracer.coder(prompt="asked"):
            raise RuntimeError("what went wrong\n" * 200)


def json_in_code(provider: TracerProvider) -> None:
    """A reply whose code looks like a reply itself."""
    with KernelTracer("relu", "1", provider) as tracer, tracer.coder(prompt="asked") as action:
        code = f"{'# a comment' * 200}\nCONFIG = r'''{reply('inner', 'of the inner')}'''\n"
        action.record(result=reply(code, "of the outer"))


def judgements_at_once(provider: TracerProvider) -> None:
    """The judgement that begins first ends last."""
    with KernelTracer("tanh", "1", provider) as tracer:
        with tracer.coder(prompt="asked") as action:
            action.record(result="answered")
        with tracer.conductor(prompt="the first", judges=action) as first:
            first.record(result="said the first")
            with tracer.conductor(prompt="the second", judges=action) as second:
                second.record(result="said the second")


def lone_surrogates(provider: TracerProvider) -> None:
    act(provider, "\udc80 asked", f"\ud800 answered {LONG}")


def by_hand(provider: TracerProvider) -> None:
    """A span of other code's, with values of all types, and one that does not end."""
    given: dict[str, AttributeValue] = {
        "kernel_trace.op_name": "by hand",
        "kernel_trace.task_id": "1",
        "kernel_trace.action_type": "tuner",
        "kernel_trace.step": 7,
        f"{PART}prompt": "asked",
        f"{PART}blocks": [1, 2],
        f"{PART}bytes": b"\xff text",
        "numbers": [1.5, float("nan"), float("-inf")],
        "large": 2**62,
        "negative": -1,
        "none": [],
        "no": False,
    }
    tracer = provider.get_tracer("other code", "1.0")
    with tracer.start_as_current_span("tune", attributes=given) as span:
        span.add_event("an event", {"x": [True, False]})
    begun = {**given, "kernel_trace.step": 8, f"{PART}prompt": f"never answered {LONG}"}
    tracer.start_span("tune", attributes=begun)


def everything(provider: TracerProvider) -> None:
    for story in (again, at_once, an_exception, json_in_code):
        story(provider)


# Backends


def _example(
    log_dir: Path, to: Backend | Collector, op_name: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    """The example pipeline, as the service that it says it is."""
    for module in ("openai", "numba", "opentelemetry.instrumentation.genai.openai"):
        pytest.importorskip(module, exc_type=ImportError)
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    variables = {**environment("generate_kernel"), "OTEL_EXPORTER_OTLP_ENDPOINT": to.otlp_http, **settings}
    done = subprocess.run(
        [sys.executable, EXAMPLE, "--op", op_name, "--log-dir", log_dir, "--time-limit", "60"],
        env=kept | variables,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_the_whole_trace_of_the_example(tmp_path: Path, backend: Backend) -> None:
    chars, base = 300, "https://files.example/kernels"
    done = _example(
        tmp_path,
        backend,
        "swish",
        OTEL_EXPORTER_KERNEL_TRACE_PREVIEW_CHARS=str(chars),
        OTEL_EXPORTER_KERNEL_TRACE_LINK_BASE=base,
    )
    indexed = index(tmp_path)
    told = {span.span_id: span for span in backend.wait_for(len(indexed), "generate_kernel")}
    assert told.keys() == indexed.keys()
    assert len({span.trace_id for span in told.values()}) == 1

    for span_id, span in told.items():
        ours = indexed[span_id]
        assert (span.name, span.trace_id) == (ours["name"], ours["traceId"])
        assert span.parent_span_id == ours.get("parentSpanId")
        begin, end = int(ours["startTimeUnixNano"]), int(ours["endTimeUnixNano"])
        assert abs(span.start_ns - begin) <= 1000
        assert abs(span.duration_ns - (end - begin)) <= 2000
        assert span.duration_ns > 0
        if span.parent_span_id:
            around = told[span.parent_span_id]
            assert around.start_ns <= span.start_ns
            assert span.start_ns + span.duration_ns <= around.start_ns + around.duration_ns + 3000

    [root] = (span for span in told.values() if span.parent_span_id is None)
    assert root.name == "kernel_task"
    in_order = sorted(told.values(), key=lambda span: span.start_ns)
    actions = [span for span in in_order if span.parent_span_id == root.span_id]
    steps = [(span.attributes["kernel_trace.step"], span.name, span.status) for span in actions]
    assert steps == [
        (1, "DO_DESIGNER", "UNSET"),
        (1, "CHECK_DESIGNER", "UNSET"),
        (2, "DO_CODER", "UNSET"),
        (3, "VERIFY", "ERROR"),
        (3, "ANALYZE_ERROR", "UNSET"),
        (4, "FIX_CODER", "UNSET"),
        (5, "VERIFY", "UNSET"),
    ]
    for before, after in itertools.pairwise(actions):
        assert before.start_ns + before.duration_ns <= after.start_ns + 3000

    # What the pipeline measured around each action, in the table that it prints.
    rows = re.findall(r"^swish +(\d+) +([A-Z_]+) +(\d+\.\d+)  ", done.stdout, re.MULTILINE)
    assert [(int(step), name) for step, name, _ in rows] == [step[:2] for step in steps]
    for span, (_, name, seconds) in zip(actions, rows, strict=True):
        # By another clock, which may go a little faster or slower.
        assert span.duration_ns / 1e9 <= 1.05 * float(seconds) + 0.05
        if name == "VERIFY":
            assert span.duration_ns / 1e9 >= 0.5 * float(seconds) > 0

    # Every model call stands in the action that made it, which has its figures.
    inside = [span for span in in_order if span.parent_span_id not in (None, root.span_id)]
    calls = [span for span in inside if "kernel_trace.stage" not in span.attributes]
    stages = [(told[span.parent_span_id or ""].name, span.name) for span in inside if span not in calls]
    assert stages == [("VERIFY", "prepare"), ("VERIFY", "compare")] * 2
    assert [span.name for span in actions if span.name != "VERIFY"] == [
        told[call.parent_span_id or ""].name for call in calls
    ]
    for call in calls:
        around = told[call.parent_span_id or ""]
        for name in ("gen_ai.response.model", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
            assert around.attributes[name] == call.attributes[name]

    # Every file is told, as the text it has or by a preview and a reference.
    written, whole, shortened = raw_tree(tmp_path), 0, 0
    for span_id, ours in indexed.items():
        given, seen = attributes_of(ours), told[span_id].attributes
        files = referenced(seen, tmp_path)
        for name in (key.removesuffix(".path") for key in given if key.endswith(".path")):
            if name.startswith("kernel_trace.stage."):  # no file of the tree
                assert files.pop(name).startswith(str(seen[name]).encode())
                continue
            content = written.pop(str(given[f"{name}.path"]))
            text = str(given.get(name, content.decode()))  # of a reply the file has what was parsed out of it
            assert seen[name] == text[:chars]
            if len(text) > chars:
                shortened += 1
                assert files.pop(name) == content
                assert seen[f"{name}.url"] == f"{base}/{seen[f'{name}.path']}"
            else:
                whole += 1
        assert not files
    assert not written
    assert whole >= 5
    assert shortened >= 5


SIX_MB = "0123456789abcde\n" * 375_000


@PROTOCOLS
def test_a_prompt_of_6_mb_arrives_as_a_preview_with_a_reference(
    tmp_path: Path, backend: Backend, protocol: str
) -> None:
    service = f"6 MB over {protocol}"
    with program(tmp_path, LinkedSpanExporter(otlp_exporter(backend, protocol)), service=service) as provider:
        act(provider, SIX_MB)
    told = {span.name: span for span in backend.wait_for(2, service)}
    assert told["DO_CODER"].parent_span_id == told["kernel_task"].span_id
    seen = told["DO_CODER"].attributes
    assert seen[f"{PART}prompt"] == SIX_MB[:1024]
    assert seen[f"{PART}prompt.size"] == 6_000_000
    assert seen[f"{PART}result"] == "answered"
    assert referenced(seen, tmp_path) == {f"{PART}prompt": SIX_MB.encode()}


def test_without_previews_grpc_refuses_it_and_all_that_is_in_the_batch(
    tmp_path: Path, backend: Backend
) -> None:
    service = "6 MB without previews"
    results: list[SpanExportResult] = []

    class Noted(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            results.append(exporter.export(spans))
            return results[-1]

        def shutdown(self) -> None:
            exporter.shutdown()

    exporter = otlp_exporter(backend, "grpc", timeout=1)
    with program(tmp_path, Noted(), service=service) as provider:
        act(provider)
        act(provider, SIX_MB)
    assert results == [SpanExportResult.FAILURE]
    assert backend.spans(service) == []
    assert tree(tmp_path)["swish/I1_S02_swish_DO_CODER_prompt.txt"] == SIX_MB


@pytest.mark.collector
def test_an_exception_of_6_mb_passes_over_grpc(tmp_path: Path) -> None:
    with Collector(tmp_path / "collector") as collector:
        exporter = LinkedSpanExporter(otlp_exporter(collector, "grpc", timeout=5))
        with program(tmp_path / "logs", exporter) as provider:
            with KernelTracer("swish", "1", provider) as tracer:
                with pytest.raises(RuntimeError), tracer.coder(prompt="asked"):
                    raise RuntimeError(SIX_MB)
        collector.stop()
    assert sorted(span["name"] for span in collector.spans()) == ["DO_CODER", "kernel_task"]


@pytest.mark.collector
def test_a_batch_of_previews_passes_over_grpc(tmp_path: Path) -> None:
    text = "写一个高性能的算子" * 200
    with Collector(tmp_path / "collector") as collector:
        exporter = LinkedSpanExporter(otlp_exporter(collector, "grpc", timeout=5))
        with program(None, exporter) as provider, KernelTracer("swish", "1", provider) as tracer:
            for _ in range(511):
                with tracer.coder(prompt=text) as action:
                    action.record(result=text, reasoning=text)
        collector.stop()
    assert len(collector.spans()) == 512


@pytest.mark.parametrize(
    "sampler",
    [TraceIdRatioBased(0.1), ParentBased(TraceIdRatioBased(0.1))],
    ids=["of-all-spans", "of-traces"],
)
def test_of_ten_per_cent_the_tree_has_all_and_a_backend_a_tenth(
    tmp_path: Path, backend: Backend, sampler: Sampler
) -> None:
    service = f"sampled by {type(sampler).__name__}"
    sampled = InMemorySpanExporter()
    exporter = LinkedSpanExporter(otlp_exporter(backend, "http"))
    expected = {}
    with program(tmp_path, exporter, service=service, sampler=sampler) as provider:
        provider.add_span_processor(SimpleSpanProcessor(sampled))  # which passes over what is not sampled
        for n in range(200):
            said = [{"role": "assistant", "parts": [{"type": "text", "content": f"sketched {n}"}]}]
            given = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(said)}
            with KernelTracer("swish", str(n), provider) as tracer:
                with tracer.designer(prompt=f"asked {n}"):
                    provider.get_tracer("a client").start_span("chat", attributes=given).end()
                with tracer.conductor(prompt=f"is {n} good?") as verdict:
                    verdict.record(result=f"{n} is good")
            for name, text in [
                (f"I{n}_S01_swish_DO_DESIGNER_prompt.txt", f"asked {n}"),
                (f"I{n}_S01_swish_DO_DESIGNER_reasoning.txt", ""),
                (f"I{n}_S01_swish_DO_DESIGNER_result.txt", f"sketched {n}"),
                (f"conductor/I{n}_S01_swish_CheckDesigner_prompt.txt", f"is {n} good?"),
                (f"conductor/I{n}_S01_swish_CheckDesigner_result.txt", f"{n} is good"),
            ]:
                expected[f"swish/{name}"] = text
    assert tree(tmp_path) == expected

    ids = {format_span_id(span.context.span_id) for span in sampled.get_finished_spans()}
    backend.wait_for(len(ids), service)
    time.sleep(0.5)  # for what should not come
    told = backend.spans(service)
    assert {span.span_id for span in told} == ids
    traces = Counter(span.trace_id for span in told)
    assert set(traces.values()) == {4}
    assert 3 < len(traces) < 45  # all but one in a hundred thousand times
    by_id = {span.span_id: span for span in told}
    parents = Counter(
        (span.name, by_id[span.parent_span_id].name if span.parent_span_id else None) for span in told
    )
    assert parents == {
        ("kernel_task", None): len(traces),
        ("DO_DESIGNER", "kernel_task"): len(traces),
        ("chat", "DO_DESIGNER"): len(traces),
        ("CHECK_DESIGNER", "kernel_task"): len(traces),
    }


_GOES_ON = """
import sys
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from otel_kernel_trace import KernelTracer, LinkedSpanExporter, configure

provider = TracerProvider()
configure(sys.argv[1], tracer_provider=provider)
provider.add_span_processor(BatchSpanProcessor(LinkedSpanExporter(OTLPSpanExporter())))
with KernelTracer.from_carrier(tracer_provider=provider) as tracer:
    with tracer.verifier() as check:
        check.record(False, "it fails")
    with tracer.conductor(prompt="What is wrong?", judges=check) as verdict:
        verdict.record(result="This.")
provider.shutdown()
"""


def test_a_trace_that_crosses_processes_is_one(tmp_path: Path, backend: Backend) -> None:
    service = "a task in three processes"

    def child(tracer: KernelTracer) -> None:
        variables = {**environment(service), "OTEL_EXPORTER_OTLP_ENDPOINT": backend.otlp_http}
        subprocess.run(
            [sys.executable, "-c", _GOES_ON, tmp_path],
            env={**tracer.environment(), **variables},
            check=True,
            timeout=60,
        )

    with program(tmp_path, LinkedSpanExporter(otlp_exporter(backend, "http")), service=service) as provider:
        with KernelTracer("swish", "1", provider) as tracer:
            with tracer.action("dispatcher", prompt="verify it elsewhere"):
                child(tracer)
            child(tracer)
            with tracer.coder(prompt="asked") as action:
                action.record(result="answered")

    told = sorted(backend.wait_for(7, service), key=lambda span: span.start_ns)
    assert len({span.trace_id for span in told}) == 1
    by_id = {span.span_id: span for span in told}
    assert [
        (
            span.attributes.get("kernel_trace.step"),
            span.name,
            by_id[span.parent_span_id].name if span.parent_span_id else None,
        )
        for span in told
    ] == [
        (None, "kernel_task", None),
        (1, "dispatcher", "kernel_task"),
        (2, "VERIFY", "dispatcher"),
        (2, "ANALYZE_ERROR", "dispatcher"),
        (3, "VERIFY", "kernel_task"),
        (3, "ANALYZE_ERROR", "kernel_task"),
        (4, "DO_CODER", "kernel_task"),
    ]
    for span in told:
        if span.parent_span_id:
            around = by_id[span.parent_span_id]
            assert around.start_ns <= span.start_ns
            assert span.start_ns + span.duration_ns <= around.start_ns + around.duration_ns + 3000
    texts = tree(tmp_path)
    assert texts["swish/I1_S03_swish_VERIFY_error_log.txt"] == "it fails"
    assert len(texts) == 10


# Backends that fail

_WORK = """
import sys, time
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from otel_kernel_trace import KernelTracer, LinkedSpanExporter, configure

log_dir, protocol, endpoint, timeout = sys.argv[1:]
provider = TracerProvider()
configure(log_dir, tracer_provider=provider)
if endpoint:
    if protocol == "http":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    else:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    exporter = LinkedSpanExporter(OTLPSpanExporter(endpoint=endpoint, timeout=float(timeout)))
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=100))
print("ready", flush=True)
sys.stdin.readline()
begin = time.monotonic()
with KernelTracer("swish", "1", provider) as tracer:
    for number in range(1, 41):
        with tracer.coder(prompt=f"asked {number} " * 2000) as action:
            time.sleep(0.05)
            action.record(result=f"answered {number} " * 2000, reasoning="thought")
        print(number, flush=True)
print(time.monotonic() - begin, flush=True)
provider.shutdown()
"""


class Pipeline:
    """A process that works for two seconds and sends what it does. To be used as a with block."""

    def __init__(
        self,
        log_dir: Path,
        endpoint: str = "",
        *,
        protocol: str = "http",
        timeout: float = 2,
        service: str = "",
    ) -> None:
        self.log_dir = log_dir
        self._errors = log_dir.with_name(f"{log_dir.name}.stderr")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _WORK, log_dir, protocol, endpoint, str(timeout)],
                env=os.environ | environment(service or "tests"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._line() == "ready", self._errors.read_text()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def wait_for(self, number: int) -> None:
        """Until so many of its actions have ended."""
        while self._line() != str(number):
            pass

    def seconds(self) -> float:
        """What its work took, when it has ended as it should."""
        self.wait_for(40)
        seconds = float(self._line())
        assert self._process.wait(60) == 0
        assert "Traceback" not in self._errors.read_text()
        return seconds

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, self._errors.read_text()
        return line.strip()


def _as_if_nothing_were(pipelines: Mapping[str, Pipeline], alone: Pipeline) -> None:
    """Pipelines that ran together with one that sends nothing took as long, and wrote what it wrote."""
    seconds = alone.seconds()
    assert seconds >= 2
    for name, pipeline in pipelines.items():
        assert pipeline.seconds() <= 1.25 * seconds, name
        assert raw_tree(pipeline.log_dir) == raw_tree(alone.log_dir), name
    assert len(raw_tree(alone.log_dir)) == 120


@pytest.mark.slow
def test_a_backend_that_is_not_there_or_never_answers_costs_a_pipeline_nothing(tmp_path: Path) -> None:
    endpoints = {}
    with ExitStack() as stack:
        deaf = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for name, port in (("down", free_ports(1)[0]), ("deaf", deaf.getsockname()[1])):
            for protocol, path in (("http", "/v1/traces"), ("grpc", "")):
                pytest.importorskip(f"opentelemetry.exporter.otlp.proto.{protocol}.trace_exporter")
                endpoints[f"{name} {protocol}"] = f"http://127.0.0.1:{port}{path}"
        pipelines = {
            name: stack.enter_context(
                Pipeline(tmp_path / name, endpoint, protocol=name.split()[1], timeout=1)
            )
            for name, endpoint in endpoints.items()
        }
        alone = stack.enter_context(Pipeline(tmp_path / "alone"))
        for pipeline in (*pipelines.values(), alone):
            pipeline.begin()
        _as_if_nothing_were(pipelines, alone)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Phoenix, marks=pytest.mark.phoenix),
        pytest.param(Jaeger, marks=pytest.mark.jaeger),
    ],
)
def test_a_backend_that_answers_slowly_or_dies_midway_costs_a_pipeline_nothing(
    tmp_path: Path, kind: type[Backend]
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    with kind(tmp_path / "backend") as own:
        endpoint = f"{own.otlp_http}/v1/traces"
        with (
            Pipeline(tmp_path / "slow", endpoint, timeout=30, service="slow") as pipeline,
            Pipeline(tmp_path / "alone") as alone,
        ):
            pipeline.begin()
            alone.begin()
            for number in (2, 14, 26):
                pipeline.wait_for(number)
                own.suspend()
                pipeline.wait_for(number + 8)
                own.resume()
            _as_if_nothing_were({"slow": pipeline}, alone)
        # What was late is not lost.
        told = own.wait_for(41, "slow")
        assert Counter(span.name for span in told) == {"DO_CODER": 40, "kernel_task": 1}
        for span in told:
            if span.name == "DO_CODER":
                assert referenced(span.attributes, tmp_path / "slow").keys() == {
                    f"{PART}prompt",
                    f"{PART}result",
                }

        with (
            Pipeline(tmp_path / "dying", endpoint, timeout=1) as pipeline,
            Pipeline(tmp_path / "alone then") as alone,
        ):
            pipeline.begin()
            alone.begin()
            pipeline.wait_for(15)
            own.kill()
            _as_if_nothing_were({"dying": pipeline}, alone)


# The Collector


@pytest.mark.collector
@PROTOCOLS
def test_from_python_over_the_collector_to_the_same_tree(tmp_path: Path, protocol: str) -> None:
    logs, copy = tmp_path / "logs", tmp_path / "copy"
    with Collector(tmp_path / "collector") as collector:
        with program(logs, otlp_exporter(collector, protocol)) as provider:
            everything(provider)
        collector.stop()
    assert {span["spanId"] for span in collector.spans()} == index(logs).keys()
    command("import", collector.file, "--log-dir", copy)
    written = raw_tree(logs)
    assert len(written) > 50
    assert raw_tree(copy) == written

    # Once more, and into the tree that has it all: nothing is written.
    for log_dir in (copy, logs):
        assert "0 actions and 0 other spans" in command("import", collector.file, "--log-dir", log_dir)
        assert raw_tree(log_dir) == written


@pytest.mark.collector
def test_judgements_of_one_step_keep_their_places(tmp_path: Path) -> None:
    logs, copy = tmp_path / "logs", tmp_path / "copy"
    with Collector(tmp_path / "collector") as collector:
        with program(logs, otlp_exporter(collector, "http")) as provider:
            judgements_at_once(provider)
        collector.stop()
    command("import", collector.file, "--log-dir", copy)
    assert tree(copy) == tree(logs)


@pytest.mark.collector
@pytest.mark.parametrize(
    "story",
    [
        pytest.param(again, id="again"),
        pytest.param(at_once, id="at-once"),
        pytest.param(
            an_exception,
            id="an-exception",
        ),
        pytest.param(
            json_in_code,
            id="json-in-code",
        ),
        pytest.param(lone_surrogates, id="lone-surrogates"),
    ],
)
def test_from_previews_and_the_tree_that_they_refer_to_to_the_same_tree(tmp_path: Path, story: Story) -> None:
    logs, copy = tmp_path / "logs", tmp_path / "copy"
    with Collector(tmp_path / "collector") as collector:
        with program(logs, LinkedSpanExporter(otlp_exporter(collector, "http"), 100)) as provider:
            story(provider)
        collector.stop()
    sent = collector.spans()
    assert {span["spanId"] for span in sent} == index(logs).keys()
    assert max(len(json.dumps(span)) for span in sent) < 8000
    for span in sent:
        referenced(attributes_of(span), logs)
    command("import", collector.file, "--log-dir", copy, "--texts", logs)
    assert raw_tree(copy) == raw_tree(logs)


@pytest.mark.collector
@pytest.mark.parametrize("length", [500, 1024, 2000])
def test_previews_of_what_the_sdk_cut_lead_to_the_same_tree(tmp_path: Path, length: int) -> None:
    logs, copy = tmp_path / "logs", tmp_path / "copy"
    limits = SpanLimits(max_span_attribute_length=length)
    with Collector(tmp_path / "collector") as collector:
        exporter = LinkedSpanExporter(otlp_exporter(collector, "http"))
        with program(logs, exporter, limits=limits) as provider:
            a_task(provider)
        collector.stop()
    command("import", collector.file, "--log-dir", copy, "--texts", logs)
    assert raw_tree(copy) == raw_tree(logs)


@pytest.mark.collector
def test_previews_of_what_the_sdk_dropped_lead_to_the_same_tree(tmp_path: Path) -> None:
    logs, copy = tmp_path / "logs", tmp_path / "copy"
    with Collector(tmp_path / "collector") as collector:
        with program(logs, LinkedSpanExporter(otlp_exporter(collector, "http"))) as provider:
            with KernelTracer("swish", "1", provider) as tracer, tracer.coder(prompt=LONG) as action:
                action.record(result="answered")
                for number in range(200):
                    action.span.set_attribute(f"a user's {number}", number)
        collector.stop()
    [told] = (attributes_of(span) for span in collector.spans() if span["name"] == "DO_CODER")
    assert (told.get("kernel_trace.op_name"), told.get("kernel_trace.task_id")) == ("swish", "1")
    command("import", collector.file, "--log-dir", copy, "--texts", logs)
    assert tree(copy) == tree(logs)


@pytest.mark.collector
def test_previews_of_a_trace_lead_to_the_same_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs, copy = tmp_path / "logs", tmp_path / "copy"
    with Collector(tmp_path / "collector") as collector:
        with program(logs, LinkedSpanExporter(otlp_exporter(collector, "http"))) as provider:
            monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
            told = Trace("swish", "1", logs)
            told.insert_designer_or_coder_record(
                reply("x\n" * 2000, "why"), LONG, "thought", ActionType.DO_DESIGNER
            )
            told.insert_conductor_record("good", LONG, "", ActionType.DO_DESIGNER)
            told.insert_verifier_record("False", LONG, '{"speedup": 0.5}')
            told.insert_conductor_record("bad", "asked", "", ActionType.VERIFY)
            told.insert_conductor_record("worse", "asked again", "", ActionType.VERIFY)
            told.close()
        collector.stop()
    assert len(collector.spans()) == 6
    assert sum(len(referenced(attributes_of(span), logs)) for span in collector.spans()) == 4
    command("import", collector.file, "--log-dir", copy, "--texts", logs)
    assert raw_tree(copy) == raw_tree(logs)


@pytest.mark.collector
def test_previews_of_a_program_that_has_no_tree_are_known_as_such(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with Collector(tmp_path / "collector") as collector:
        with program(None, LinkedSpanExporter(otlp_exporter(collector, "http"))) as provider:
            act(provider, LONG)
        collector.stop()
    command("import", collector.file, "--log-dir", copy)
    written = tree(copy)
    parts = ("prompt", "reasoning", "result", "~incomplete")
    assert sorted(written) == [f"swish/I1_S01_swish_DO_CODER_{part}.txt" for part in parts]
    assert f"{PART}prompt" in written["swish/I1_S01_swish_DO_CODER_~incomplete.txt"]


@pytest.mark.collector
@pytest.mark.parametrize(
    "is_told",
    [
        True,
        pytest.param(
            False,
        ),
    ],
)
def test_previews_of_a_tree_of_another_layout(tmp_path: Path, is_told: bool) -> None:
    logs, copy = tmp_path / "logs", tmp_path / "copy"
    with Collector(tmp_path / "collector") as collector:
        with program(logs, LinkedSpanExporter(otlp_exporter(collector, "http")), layout="aikg") as provider:
            a_task(provider)
        collector.stop()
    told = ["--layout", "aikg"] if is_told else []
    command("import", collector.file, "--log-dir", copy, "--texts", logs, *told)
    assert raw_tree(copy) == raw_tree(logs)


@pytest.mark.collector
@pytest.mark.slow
def test_the_example_over_the_collector_to_the_same_tree(tmp_path: Path) -> None:
    logs, copy = tmp_path / "logs", tmp_path / "copy"
    with Collector(tmp_path / "collector") as collector:
        _example(logs, collector, "softmax")
        collector.stop()
    assert {span["spanId"] for span in collector.spans()} == index(logs).keys()
    command("import", collector.file, "--log-dir", copy, "--texts", logs)
    assert raw_tree(copy) == raw_tree(logs)
    assert len(raw_tree(copy)) >= 20


def _two_runs(tmp_path: Path) -> tuple[Path, Path]:
    """A tree to which a task was written in two runs, by the exporter alone, and what the Collector has.

    Each run counts its steps from 1 on its spans."""
    with Collector(tmp_path / "collector") as collector:
        for run in (1, 2):
            with program(None, otlp_exporter(collector, "http")) as provider:
                provider.add_span_processor(SimpleSpanProcessor(KernelTraceSpanExporter(tmp_path / "logs")))
                with KernelTracer("swish", "1", provider) as tracer:
                    for number in (1, 2):
                        with tracer.coder(prompt=f"asked {number} in run {run}") as action:
                            action.record(result=f"answered {number} in run {run}")
        collector.stop()
    return tmp_path / "logs", collector.file


@pytest.mark.collector
def test_two_runs_of_a_task_stay_apart(tmp_path: Path) -> None:
    logs, collected = _two_runs(tmp_path)
    command("import", collected, "--log-dir", tmp_path / "copy")
    assert tree(tmp_path / "copy") == tree(logs)


@pytest.mark.collector
@pytest.mark.parametrize("into", ["logs", "copy"])
def test_an_import_of_two_runs_may_be_repeated(tmp_path: Path, into: str) -> None:
    _, collected = _two_runs(tmp_path)
    command("import", collected, "--log-dir", tmp_path / into)
    written = tree(tmp_path / into)
    assert len(written) == 12
    command("import", collected, "--log-dir", tmp_path / into)
    assert tree(tmp_path / into) == written


@pytest.mark.collector
@pytest.mark.parametrize(
    "story",
    [
        pytest.param(everything, id="everything"),
        pytest.param(judgements_at_once, id="judgements-at-once"),
        pytest.param(by_hand, id="by-hand"),
        pytest.param(
            lone_surrogates,
            id="lone-surrogates",
        ),
    ],
)
def test_from_a_tree_over_the_collector_to_the_same_tree(tmp_path: Path, story: Story) -> None:
    logs, copy, exported = tmp_path / "logs", tmp_path / "copy", tmp_path / "exported.jsonl"
    with program(logs) as provider:
        story(provider)
        command("export", logs, "--jsonl", "--output", exported)
    with Collector(tmp_path / "collector") as collector:
        collector.send(exported)
        collector.stop()
    lines = exported.read_text(encoding="utf-8").splitlines()
    assert len(collector.spans()) == len(lines) >= len(index(logs)) > 0
    command("import", collector.file, "--log-dir", copy)
    assert raw_tree(copy) == raw_tree(logs)


# The environment alone

_UNCHANGED = f"""
from otel_kernel_trace import KernelTracer

with KernelTracer("swish", "7") as tracer:
    with tracer.coder(prompt={LONG!r}) as action:
        action.record(result={reply(LONG, "long")!r}, reasoning="thought")
    with tracer.conductor(prompt="Is it good?") as verdict:
        verdict.record(result="It is.")
"""


@pytest.mark.collector
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("exporter", ["otlp", "kernel_trace_linked"])
def test_from_the_environment_alone_both_views_are_whole(
    tmp_path: Path, exporter: str, protocol: str
) -> None:
    pytest.importorskip("opentelemetry.distro")
    name = protocol.partition("/")[0]
    pytest.importorskip(f"opentelemetry.exporter.otlp.proto.{name}.trace_exporter")
    instrument = shutil.which("opentelemetry-instrument", path=Path(sys.executable).parent)
    assert instrument
    logs, copy = tmp_path / "logs", tmp_path / "copy"
    (tmp_path / "pipeline.py").write_text(_UNCHANGED)
    with Collector(tmp_path / "collector") as collector:
        done = subprocess.run(
            [instrument, sys.executable, "pipeline.py"],
            cwd=tmp_path,
            env={
                **os.environ,
                "OTEL_TRACES_EXPORTER": exporter,
                "OTEL_METRICS_EXPORTER": "none",
                "OTEL_LOGS_EXPORTER": "none",
                "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.otlp_http if name == "http" else collector.otlp_grpc,
                "OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR": str(logs),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        collector.stop()
    assert tree(logs) == {
        "swish/I7_S01_swish_DO_CODER_prompt.txt": LONG,
        "swish/I7_S01_swish_DO_CODER_reasoning.txt": "thought",
        "swish/I7_S01_swish_DO_CODER_result.txt": f"{LONG}\n\n\n'''\nlong\n'''",
        "swish/conductor/I7_S01_swish_CheckCoder_prompt.txt": "Is it good?",
        "swish/conductor/I7_S01_swish_CheckCoder_result.txt": "It is.",
    }
    spans = {span["name"]: span for span in collector.spans()}
    assert sorted(spans) == ["CHECK_CODER", "DO_CODER", "kernel_task"]
    assert {span["spanId"] for span in spans.values()} == index(logs).keys()
    assert {span.get("parentSpanId", "") for span in spans.values()} == {"", spans["kernel_task"]["spanId"]}
    seen = attributes_of(spans["DO_CODER"])
    if exporter == "otlp":
        assert seen[f"{PART}prompt"] == LONG
        assert seen[f"{PART}result"] == reply(LONG, "long")
        command("import", collector.file, "--log-dir", copy)
    else:
        assert seen[f"{PART}prompt"] == LONG[:1024]
        assert seen[f"{PART}result"] == reply(LONG, "long")[:1024]
        assert referenced(seen, logs).keys() == {f"{PART}prompt", f"{PART}result"}
        command("import", collector.file, "--log-dir", copy, "--texts", logs)
    assert raw_tree(copy) == raw_tree(logs)
