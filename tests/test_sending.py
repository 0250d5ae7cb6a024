"""Trees to backends: what arrives is what was recorded, once, whatever happens on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import ActionType, KernelTracer, LinkedSpanExporter, Trace, configure
from otel_kernel_trace.indexed import Passed, indexed_spans
from otel_kernel_trace.otlp import line_of, spans_in
from otel_kernel_trace.record import attributes_of
from otel_kernel_trace.sending import Delivered, Endpoint, SendError, SentSpans, headers_of, send_tree
from otel_kernel_trace.store import Store
from otel_kernel_trace.transfer import whole_spans
from tests import components
from tests.components import Backend, Collector, free_ports, resource
from tests.faults import forked
from tests.test_components import PROTOCOLS, otlp_exporter

pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

backend = components.backend

LONG = "a line of a long text, \N{GREEK SMALL LETTER LAMDA}\r\n" * 200


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, which is not there yet; programs are where they were."""
    path = tmp_path / "cache"
    before = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    if not os.environ.get("KERNEL_TRACE_COMPONENTS"):
        monkeypatch.setenv("KERNEL_TRACE_COMPONENTS", str(Path(before, "otel-kernel-trace", "components")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    return path


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A tree in which there is a bit of everything."""
    path = tmp_path / "tree"
    provider = TracerProvider(
        resource=Resource(resource("sent"), "https://schemas.example/1"), shutdown_on_exit=False
    )
    configure(path, tracer_provider=provider)
    _work(provider)
    provider.shutdown()
    return path


def _work(provider: TracerProvider, task_id: str = "1") -> None:
    with KernelTracer("swish", task_id, provider) as tracer:
        with tracer.designer(prompt=LONG) as design:
            given: dict[str, AttributeValue] = {
                "gen_ai.operation.name": "chat",
                "gen_ai.usage.input_tokens": 7,
                "deep": [1, 2],
            }
            said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": LONG}]}])
            client = provider.get_tracer("client", "1.5", "https://schemas.example/2")
            with client.start_as_current_span("chat", kind=SpanKind.CLIENT, attributes=given) as call:
                call.set_attribute("gen_ai.output.messages", said)
                call.add_event("asked", {"how": "kindly"}, timestamp=1_795_232_851_922_295_469)
        with tracer.coder(prompt="short") as code:
            code.record(json.dumps({"code": "x = 1\n" * 500, "description": "d"}), plan=LONG)
        with tracer.verifier(framework="torch") as check:
            check.record(False, LONG, {"speedup": 0.5}, reference="r" * 3000)
        with tracer.conductor(prompt="?", judges=design) as verdict:
            verdict.record("fine")
        with pytest.raises(ZeroDivisionError), tracer.coder(prompt="p"):
            raise ZeroDivisionError


def _indexed(log_dir: Path) -> list[ReadableSpan]:
    return list(indexed_spans(Store(str(log_dir)), Passed()))


def _send(log_dir: Path, endpoint: str, **options: Any) -> Delivered:
    return send_tree(str(log_dir), Endpoint.of(endpoint), **options)


def _collected(collector: Collector) -> list[ReadableSpan]:
    return [span for request in collector.requests() for span in spans_in(request) if span is not None]


def _told(span: ReadableSpan) -> dict[str, object]:
    """All of a span but its attributes, and but for what OpenTelemetry's exporters do not send."""
    scope = span.instrumentation_scope
    parent = span.parent
    return {
        "ids": (span.context.trace_id, span.context.span_id, parent.span_id if parent else None),
        "name": span.name,
        "times": (span.start_time, span.end_time),
        "kind": span.kind,
        "status": (span.status.status_code, span.status.description or ""),
        "events": [(event.name, event.timestamp) for event in span.events],
        "links": [
            (link.context.trace_id, link.context.span_id, dict(link.attributes or {})) for link in span.links
        ],
        "resource": (dict(span.resource.attributes), span.resource.schema_url),
        "scope": (scope.name, scope.version or "", scope.schema_url or "") if scope else None,
    }


def _by_id(spans: Sequence[ReadableSpan]) -> dict[int, ReadableSpan]:
    found = {span.context.span_id: span for span in spans}
    assert len(found) == len(spans)
    return found


# A server of our own, for what real ones do not do when they are asked to


@dataclass
class _Answer:
    """What a server says to a request."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/x-protobuf"
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0
    """Before it says it."""


class _Server:
    """Takes OTLP over HTTP; says what ``answers`` has, in turn, the last one again and again."""

    def __init__(self) -> None:
        self.answers = [_Answer()]
        self.spans: list[tuple[str, str]] = []
        """Trace and span ids of what it said yes to, in hexadecimal."""
        self.requests: list[tuple[str, dict[str, str], int]] = []
        """Path, headers by lower-case name, and size."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
                headers = {name.lower(): value for name, value in self.headers.items()}
                server.requests.append((self.path, headers, len(body)))
                time.sleep(answer.seconds)
                if 200 <= answer.status < 300:
                    request = ExportTraceServiceRequest.FromString(body)
                    server.spans += [
                        (span.trace_id.hex(), span.span_id.hex())
                        for resource_spans in request.resource_spans
                        for scope_spans in resource_spans.scope_spans
                        for span in scope_spans.spans
                    ]
                self.send_response(answer.status)
                for name, value in {"Content-Type": answer.content_type, **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> _Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as running:
        yield running


def _many(log_dir: Path, count: int = 60, chars: int = 200_000) -> None:
    """A tree that takes several requests to send, if its texts are sent whole."""
    trace = Trace("swish", "1", log_dir)
    for number in range(count):
        trace.insert_designer_or_coder_record(f"{number}" + "r" * chars, "p", "", ActionType.DO_CODER)


class TestEndpoint:
    @pytest.mark.parametrize(
        ("text", "url", "protocol"),
        [
            ("http://localhost:4318", "http://localhost:4318/v1/traces", "http"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces", "http"),
            (" https://host ", "https://host/v1/traces", "http"),
            ("https://host/v1/traces", "https://host/v1/traces", "http"),
            ("https://host/v1/traces/", "https://host/v1/traces", "http"),
            ("https://host/otlp?project=x", "https://host/otlp/v1/traces?project=x", "http"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces", "http"),
            ("grpc://localhost:4317", "http://localhost:4317", "grpc"),
            ("grpcs://host:443/", "https://host:443", "grpc"),
        ],
    )
    def test_a_base_or_all_of_it(self, text: str, url: str, protocol: str) -> None:
        endpoint = Endpoint.of(text)
        assert (endpoint.url, endpoint.protocol) == (url, protocol)

    @pytest.mark.parametrize(
        "text",
        ["", "localhost:4318", "ftp://host", "http://", "http://host:port", "http://host:99999", "grpc://h/path",
         "/v1/traces", "http://[::1"],
    )  # fmt: skip
    def test_another_text_is_none(self, text: str) -> None:
        with pytest.raises(ValueError, match="an endpoint"):
            Endpoint.of(text)

    def test_passwords_are_not_shown(self) -> None:
        endpoint = Endpoint.of("https://user:secret@host:1/x?key=secret")
        assert endpoint.shown == "https://host:1/x/v1/traces"
        assert "user:secret@" in endpoint.url
        assert "secret" in endpoint.url

    def test_headers(self) -> None:
        given = headers_of(["Authorization=Bearer a=b", " x-key = v "])
        assert given == {"authorization": "Bearer a=b", "x-key": "v"}

    @pytest.mark.parametrize("text", ["secret", "=secret", "a b=secret", "a=secret\n x", "a=é secret", ""])
    def test_what_is_no_header_is_told_without_its_value(self, text: str) -> None:
        with pytest.raises(ValueError, match="header") as error:
            headers_of([text])
        assert "secret" not in str(error.value)


@pytest.mark.collector
class TestWhatArrives:
    @PROTOCOLS
    def test_is_what_the_index_has(self, log_dir: Path, tmp_path: Path, protocol: str) -> None:
        indexed = _by_id(_indexed(log_dir))
        with Collector(tmp_path / "collector") as collector:
            grpc = collector.otlp_grpc.replace("http:", "grpc:")
            done = _send(log_dir, collector.otlp_http if protocol == "http" else grpc)
            collector.stop()
        assert (done.spans, done.passed) == (len(indexed), Passed())
        arrived = _by_id(_collected(collector))
        assert {key: _told(span) for key, span in arrived.items()} == {
            key: _told(span) for key, span in indexed.items()
        }
        exact = (
            "name",
            "deep",
            "gen_ai.usage.input_tokens",
            "how",
            "kernel_trace.step",
            "kernel_trace.task_id",
        )
        for key, span in indexed.items():
            for name in exact:
                assert attributes_of(arrived[key]).get(name) == attributes_of(span).get(name)

    def test_is_what_a_program_would_have_sent_itself(self, tmp_path: Path) -> None:
        log_dir = tmp_path / "tree"
        provider = TracerProvider(resource=Resource(resource("both")), shutdown_on_exit=False)
        configure(log_dir, tracer_provider=provider)
        with Collector(tmp_path / "live") as live:
            linked = LinkedSpanExporter(otlp_exporter(live, "http"))
            provider.add_span_processor(SimpleSpanProcessor(linked))
            _work(provider)
            provider.shutdown()
            live.stop()
        with Collector(tmp_path / "later") as later:
            _send(log_dir, later.otlp_http)
            later.stop()
        arrived = _by_id(_collected(later))
        for key, span in _by_id(_collected(live)).items():
            again, given = dict(attributes_of(arrived[key])), attributes_of(span)
            again.pop("kernel_trace.layout", None)
            # Files that the action was not given itself: empty ones, and a traceback that is the error log.
            more = {name for name in again if name not in given}
            assert all(again[name] == "" or f"{name}.path" in given for name in more)
            marks = {f"{name}.{mark}" for name in more for mark in ("path", "sha256", "size")}
            assert {name: value for name, value in again.items() if name not in more} == {
                name: value for name, value in given.items() if name not in marks
            }
            assert _told(arrived[key])["times"] == _told(span)["times"]
        assert len(arrived) == len(_collected(live))

    def test_whole_are_all_texts(self, log_dir: Path, tmp_path: Path) -> None:
        with Collector(tmp_path / "collector") as collector:
            _send(log_dir, collector.otlp_http, whole=True)
            collector.stop()
        arrived = _by_id(_collected(collector))
        for told in whole_spans(str(log_dir), Passed()):
            sent = attributes_of(arrived[told.span.context.span_id])
            for name, value in told.whole.items():
                if name.startswith(("kernel_trace.part.", "kernel_trace.verify.", "gen_ai.")):
                    assert sent[name] == value

    def test_a_text_of_6_mb_and_many_of_100_kb_pass_grpc(self, tmp_path: Path) -> None:
        log_dir = tmp_path / "tree"
        trace = Trace("swish", "1", log_dir)
        trace.insert_designer_or_coder_record("r", "p" * 6_000_000, "", ActionType.DO_CODER)
        _many(log_dir, 100, 100_000)
        with Collector(tmp_path / "collector") as collector:
            done = _send(log_dir, collector.otlp_grpc.replace("http:", "grpc:"), preview_chars=90_000)
            collector.stop()
        assert done.spans == len(_collected(collector)) == 101
        assert len(collector.requests()) > 2

    def test_what_has_not_ended_is_left_out_or_sent_with_its_start(self, tmp_path: Path) -> None:
        log_dir = tmp_path / "tree"
        provider = TracerProvider(shutdown_on_exit=False)
        configure(log_dir, tracer_provider=provider)
        with forked() as child:
            if child.is_child:
                with KernelTracer("swish", "1", provider) as tracer, tracer.coder(prompt="p"):
                    child.ends(True)
        with Collector(tmp_path / "collector") as collector:
            done = _send(log_dir, collector.otlp_http)
            assert (done.spans, done.pending) == (0, 1)
            done = _send(log_dir, collector.otlp_http, pending=True)
            assert (done.spans, done.pending) == (1, 0)
            assert _send(log_dir, collector.otlp_http, pending=True).known == 1
            collector.stop()
        [span] = _collected(collector)
        assert span.start_time == span.end_time == _indexed(log_dir)[0].start_time
        assert attributes_of(span)["kernel_trace.pending"] is True

    def test_files_without_a_line_are_sent_with_what_their_names_say(
        self, log_dir: Path, tmp_path: Path
    ) -> None:
        for shard in (log_dir / ".kernel_trace/index").iterdir():
            shard.unlink()
        with Collector(tmp_path / "collector") as collector:
            done = _send(log_dir, collector.otlp_http)
            assert _send(log_dir, collector.otlp_http).known == done.spans
            collector.stop()
        names = sorted(str(attributes_of(span)["kernel_trace.action_type"]) for span in _collected(collector))
        assert names == ["CHECK_DESIGNER", "DO_CODER", "DO_CODER", "DO_DESIGNER", "VERIFY"]

    def test_what_protobuf_can_not_hold_costs_no_span(self, tmp_path: Path) -> None:
        bad = "lone \ud83d"
        given: dict[str, AttributeValue] = {
            "kernel_trace.op_name": bad, "kernel_trace.task_id": "1", "kernel_trace.action_type": bad,
            f"kernel_trace.part.{bad}": bad * 1000, "list": [bad], "deep": {bad: [bad]}, "large": 2**63,
        }  # fmt: skip
        span = ReadableSpan(
            bad,
            SpanContext(1, 2, False, TraceFlags(1)),
            resource=Resource.get_empty(),
            attributes=given,
            links=[Link(SpanContext(1, 3, False), {bad: bad})],
            status=Status(StatusCode.ERROR, bad),
            start_time=1,
            end_time=2,
            instrumentation_scope=InstrumentationScope("tests"),
        )
        index = tmp_path / "tree/.kernel_trace/index"
        index.mkdir(parents=True)
        (index / "0.jsonl").write_bytes(line_of(span, given))
        with Collector(tmp_path / "collector") as collector:
            assert _send(tmp_path / "tree", collector.otlp_http, whole=True).spans == 1
            collector.stop()
        [arrived] = _collected(collector)
        good = "lone \\ud83d"
        assert (arrived.name, arrived.status.description) == (good, good)
        assert attributes_of(arrived)[f"kernel_trace.part.{good}"] == good * 1000
        assert attributes_of(arrived)["deep"] == {good: [good]}
        assert dict(arrived.links[0].attributes or {}) == {good: good}


def test_a_backend_has_the_ids_and_times(backend: Backend, tmp_path: Path) -> None:
    service = f"sent to {backend.name}"
    provider = TracerProvider(resource=Resource(resource(service)), shutdown_on_exit=False)
    configure(tmp_path / "tree", tracer_provider=provider)
    _work(provider)
    provider.shutdown()
    indexed = _by_id(_indexed(tmp_path / "tree"))
    assert _send(tmp_path / "tree", backend.otlp_http).spans == len(indexed)
    assert _send(tmp_path / "tree", backend.otlp_http).known == len(indexed)
    stored = backend.wait_for(len(indexed), service)
    assert len(stored) == len(indexed)
    for one in stored:
        span = indexed[int(one.span_id, 16)]
        assert int(one.trace_id, 16) == span.context.trace_id
        assert one.parent_span_id == (f"{span.parent.span_id:016x}" if span.parent else None)
        assert one.name == span.name
        assert span.start_time is not None
        assert span.end_time is not None
        assert abs(one.start_ns - span.start_time) <= 1000
        assert abs(one.duration_ns - (span.end_time - span.start_time)) <= 2000
        assert one.status == span.status.status_code.name


class TestWhatWasSentBefore:
    def test_is_not_sent_again(self, log_dir: Path, server: _Server) -> None:
        count = len(_indexed(log_dir))
        assert _send(log_dir, server.url) == Delivered(spans=count)
        assert _send(log_dir, f"{server.url}/v1/traces") == Delivered(known=count)
        assert len(server.spans) == len(set(server.spans)) == count

    def test_but_what_came_since_is(self, log_dir: Path, server: _Server) -> None:
        count = _send(log_dir, server.url).spans
        trace = Trace("softmax", "1", log_dir)
        trace.insert_verifier_record("True", "", "")
        assert _send(log_dir, server.url) == Delivered(spans=1, known=count)

    def test_unless_it_is_asked_for(self, log_dir: Path, server: _Server) -> None:
        count = _send(log_dir, server.url).spans
        assert _send(log_dir, server.url, again=True) == Delivered(spans=count)
        assert _send(log_dir, server.url) == Delivered(known=count)

    def test_another_backend_has_not_got_it_nor_has_another_tree_been_sent(
        self, log_dir: Path, tmp_path: Path, server: _Server
    ) -> None:
        count = _send(log_dir, server.url).spans
        assert _send(log_dir, f"{server.url}/another").spans == count
        trace = Trace("softmax", "1", tmp_path / "other")
        trace.insert_verifier_record("True", "", "")
        assert _send(tmp_path / "other", server.url).spans == 1

    def test_one_that_had_begun_is_sent_when_it_has_ended(self, tmp_path: Path, server: _Server) -> None:
        provider = TracerProvider(shutdown_on_exit=False)
        configure(tmp_path / "tree", tracer_provider=provider)
        with KernelTracer("swish", "1", provider) as tracer, tracer.coder(prompt="p"):
            assert _send(tmp_path / "tree", server.url, pending=True).spans == 1
        assert _send(tmp_path / "tree", server.url, pending=True).spans == 2

    def test_two_lines_of_one_span_are_sent_once(self, log_dir: Path, server: _Server) -> None:
        [shard] = (log_dir / ".kernel_trace/index").glob("*.jsonl")
        (shard.parent / "copy.jsonl").write_bytes(shard.read_bytes())
        _send(log_dir, server.url)
        assert len(server.spans) == len(set(server.spans))

    def test_is_kept_in_the_cache_folder_without_secrets(
        self, log_dir: Path, server: _Server, cache: Path
    ) -> None:
        with_password = server.url.replace("http://", "http://user:secret@") + "?key=secret"
        _send(log_dir, with_password, headers={"authorization": "secret"})
        [path] = cache.rglob("*.jsonl")
        assert path.parent == cache / "otel-kernel-trace" / "sent"
        assert re.fullmatch("[0-9a-f]{64}", path.stem)
        assert "secret" not in path.read_text()
        assert json.loads(path.read_text().splitlines()[0])["tree"] == str(log_dir)
        assert path.parent.stat().st_mode & 0o077 == 0

    def test_or_where_the_variable_names_none_in_the_home(
        self, log_dir: Path, server: _Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        for value in ("", "relative"):
            monkeypatch.setenv("XDG_CACHE_HOME", value)
            path = SentSpans(str(log_dir), Endpoint.of(server.url)).path
            assert path.is_relative_to(tmp_path / "home/.cache/otel-kernel-trace/sent")

    @pytest.mark.parametrize("more", [b'{"sent":["00', b"\xff\xfe\n", b"[]\n1\n", b'{"sent":["a-b","",7]}\n'])
    def test_what_else_stands_in_the_file_costs_nothing(
        self, log_dir: Path, server: _Server, cache: Path, more: bytes
    ) -> None:
        count = _send(log_dir, server.url).spans
        [path] = cache.rglob("*.jsonl")
        path.write_bytes(path.read_bytes() + more)
        assert _send(log_dir, server.url).known == count
        Trace("softmax", "1", log_dir).insert_verifier_record("True", "", "")
        assert _send(log_dir, server.url).spans == 1
        assert _send(log_dir, server.url).known == count + 1

    def test_a_file_that_was_cut_has_spans_sent_twice_rather_than_never(
        self, log_dir: Path, server: _Server, cache: Path
    ) -> None:
        count = _send(log_dir, server.url).spans
        [path] = cache.rglob("*.jsonl")
        path.write_bytes(path.read_bytes()[:-5])
        assert _send(log_dir, server.url).spans == count

    def test_where_it_can_not_be_kept_nothing_is_sent(
        self, log_dir: Path, server: _Server, cache: Path
    ) -> None:
        cache.write_text("in the way")
        with pytest.raises(OSError, match="cache"):
            _send(log_dir, server.url)
        assert server.requests == []


@contextmanager
def _command(log_dir: Path, url: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command as a process of its own, which sends a tree whole."""
    script = "from otel_kernel_trace.cli import main; main()"
    arguments = ["export", str(log_dir), "--otlp", url, "--whole"]
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stderr=subprocess.PIPE, env={**os.environ, **variables}
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


class TestInterrupted:
    @pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    def test_it_goes_on_where_it_was(self, tmp_path: Path, server: _Server, by: signal.Signals) -> None:
        _many(tmp_path / "tree")
        server.answers = [_Answer(), _Answer(), _Answer(seconds=1)]
        with _command(tmp_path / "tree", server.url) as process:
            deadline = time.monotonic() + 60
            while len(server.requests) < 3:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(by)
            process.communicate(timeout=60)
            assert process.returncode != 0
        server.answers = [_Answer()]
        time.sleep(1.2)  # the request that nobody waits for is taken all the same
        before = len(server.spans)
        done = _send(tmp_path / "tree", server.url, whole=True)
        assert done.spans + done.known == 60
        assert done.known >= 20
        times = Counter(server.spans)
        assert len(times) == 60
        assert sum(times.values()) - 60 <= before - done.known < 30

    def test_where_the_backend_dies_midway_what_it_had_is_remembered(
        self, tmp_path: Path, server: _Server
    ) -> None:
        _many(tmp_path / "tree")
        server.answers = [_Answer(), _Answer(), _Answer(500, b"no more", "text/plain")]
        with pytest.raises(SendError, match="500"):
            _send(tmp_path / "tree", server.url, whole=True)
        server.answers = [_Answer()]
        done = _send(tmp_path / "tree", server.url, whole=True)
        assert done.known > 0
        assert done.spans + done.known == 60
        assert len(server.spans) == len(set(server.spans)) == 60

    def test_requests_are_no_larger_than_grpc_takes(self, tmp_path: Path, server: _Server) -> None:
        _many(tmp_path / "tree")
        _send(tmp_path / "tree", server.url, whole=True)
        assert len(server.requests) > 3
        assert max(size for _, _, size in server.requests) < 4 * 1024 * 1024


class TestErrors:
    def test_nobody_is_there(self, log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        url = f"http://127.0.0.1:{free_ports(1)[0]}"
        with pytest.raises(SendError) as error:
            _send(log_dir, url)
        assert str(error.value) == f"{url}/v1/traces can't be reached: connection refused"

    def test_nor_over_grpc(self, log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        with pytest.raises(SendError, match=r"can't be reached|did not take"):
            _send(log_dir, f"grpc://127.0.0.1:{free_ports(1)[0]}")

    def test_there_is_no_such_host(self, log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        with pytest.raises(SendError, match="can't be reached: there is no host of that name"):
            _send(log_dir, "http://nobody.invalid:4318")

    def test_it_never_answers(self, log_dir: Path, server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
        server.answers = [_Answer(seconds=3)]
        with pytest.raises(SendError, match="did not answer in time"):
            _send(log_dir, server.url)

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            (_Answer(404), "says 404 Not Found: is it the base of an OTLP/HTTP endpoint?"),
            (_Answer(405), "says 405 Method Not Allowed: is it the base of an OTLP/HTTP endpoint?"),
            (
                _Answer(401),
                "refuses: 401 Unauthorized; give what it wants with --header NAME=VALUE",
            ),
            (_Answer(403), "refuses: 403 Forbidden; give what it wants with --header NAME=VALUE"),
            (_Answer(413), "a request is too large for it; try smaller --preview-chars"),
            (_Answer(302, headers={"Location": "/in"}), "leads elsewhere (302 Found): give the endpoint"),
            (_Answer(200, b"<html>", "text/html; charset=utf-8"), "answers with a page: is it the base of"),
            (_Answer(500, b"it is\n broken", "text/plain"), "says 500 Internal Server Error"),
            (_Answer(400, b"bad span", "text/plain"), "says 400 Bad Request: bad span"),
            (_Answer(400, b"x" * 5000, "text/plain"), "…"),
        ],
        ids=lambda value: str(value.status) if isinstance(value, _Answer) else "",
    )  # fmt: skip
    def test_it_says_no_in_one_sentence_and_nothing_is_marked_as_sent(
        self, log_dir: Path, server: _Server, answer: _Answer, told: str
    ) -> None:
        server.answers = [answer]
        with pytest.raises(SendError, match=re.escape(told)) as error:
            _send(log_dir, server.url)
        assert "\n" not in str(error.value)
        assert len(str(error.value)) <= 300
        server.answers = [_Answer()]
        assert _send(log_dir, server.url).known == 0

    @pytest.mark.parametrize("status", [429, 503])
    def test_one_that_is_busy_is_asked_again(self, log_dir: Path, server: _Server, status: int) -> None:
        server.answers = [_Answer(status, headers={"Retry-After": "0"}), _Answer(status), _Answer()]
        assert _send(log_dir, server.url).spans == len(server.spans) == len(_indexed(log_dir))
        assert len(server.requests) == 3

    def test_but_not_for_ever(self, log_dir: Path, server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        server.answers = [_Answer(503)]
        with pytest.raises(
            SendError, match="is busy: 503 Service Unavailable; the same command goes on later"
        ):
            _send(log_dir, server.url)

    def test_spans_that_it_refuses_are_told_and_not_remembered(self, log_dir: Path, server: _Server) -> None:
        response = ExportTraceServiceResponse()
        response.partial_success.rejected_spans = 2
        response.partial_success.error_message = "too old"
        server.answers = [_Answer(200, response.SerializeToString())]
        count = len(_indexed(log_dir))
        done = _send(log_dir, server.url)
        assert done == Delivered(spans=count - 2, rejected=2, reason="too old")
        server.answers = [_Answer()]
        assert _send(log_dir, server.url) == Delivered(spans=count)

    def test_headers_go_with_every_request(self, log_dir: Path, server: _Server) -> None:
        _send(log_dir, f"{server.url}/otlp", headers={"authorization": "Bearer x"})
        assert [(path, headers["authorization"]) for path, headers, _ in server.requests] == [
            ("/otlp/v1/traces", "Bearer x")
        ]

    @pytest.mark.parametrize("protocol", ["http", "grpc"])
    def test_without_the_exporter_it_says_what_to_install(
        self, log_dir: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
    ) -> None:
        module = f"opentelemetry.exporter.otlp.proto.{protocol}"
        monkeypatch.setitem(sys.modules, f"{module}.trace_exporter", None)
        url = "http://127.0.0.1:1" if protocol == "http" else "grpc://127.0.0.1:1"
        with pytest.raises(SendError, match=f"pip install opentelemetry-exporter-otlp-proto-{protocol}"):
            _send(log_dir, url)

    def test_a_tree_in_which_there_is_nothing(self, tmp_path: Path, server: _Server) -> None:
        (tmp_path / "empty").mkdir()
        assert _send(tmp_path / "empty", server.url) == Delivered()
        assert server.requests == []

    def test_a_span_without_ids_is_left_out(self, tmp_path: Path, server: _Server) -> None:
        given: dict[str, AttributeValue] = {"kernel_trace.op_name": "a", "kernel_trace.action_type": "b"}
        span = ReadableSpan("a", resource=Resource.get_empty(), attributes=given, start_time=1, end_time=2)
        index = tmp_path / "tree/.kernel_trace/index"
        index.mkdir(parents=True)
        (index / "0.jsonl").write_bytes(line_of(span, given))
        assert _send(tmp_path / "tree", server.url) == Delivered(without_id=1)
