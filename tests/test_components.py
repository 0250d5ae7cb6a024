"""The real backends and the real Collector of other tests do what those tests rely on."""

from __future__ import annotations

import json
import socket
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode, format_span_id, format_trace_id
from opentelemetry.util.types import AttributeValue

from tests import components
from tests.components import Backend, Collector, Jaeger, Phoenix, component, environment, free_ports, resource

backend = components.backend

PROTOCOLS = pytest.mark.parametrize("protocol", ["http", "grpc"])
TEXT = "a line\nanother \u2028 \N{GREEK SMALL LETTER LAMDA}"


def otlp_exporter(to: Backend | Collector, protocol: str, timeout: float = 20) -> SpanExporter:
    """OpenTelemetry's own exporter."""
    module: Any = pytest.importorskip(f"opentelemetry.exporter.otlp.proto.{protocol}.trace_exporter")
    endpoint = f"{to.otlp_http}/v1/traces" if protocol == "http" else to.otlp_grpc
    exporter: SpanExporter = module.OTLPSpanExporter(endpoint=endpoint, timeout=timeout)
    return exporter


def send(to: Backend | Collector, protocol: str, service: str = "tests") -> tuple[ReadableSpan, ReadableSpan]:
    """A parent and its child, which are sent one after the other."""
    provider = TracerProvider(resource=Resource(resource(service)), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(otlp_exporter(to, protocol)))
    tracer = provider.get_tracer("tests")
    with tracer.start_as_current_span("parent") as parent:
        time.sleep(0.01)
        with tracer.start_as_current_span("child") as child:
            child.set_attributes({"text": TEXT, "count": 2**60, "share": 0.5, "good": True})
            child.set_status(Status(StatusCode.ERROR, "no good"))
            time.sleep(0.01)
    provider.shutdown()
    assert isinstance(parent, ReadableSpan)
    assert isinstance(child, ReadableSpan)
    return parent, child


def one_span(service: str, attributes: Mapping[str, AttributeValue]) -> ReadableSpan:
    provider = TracerProvider(resource=Resource(resource(service)), shutdown_on_exit=False)
    span = provider.get_tracer("tests").start_span("one", attributes=attributes)
    span.end()
    assert isinstance(span, ReadableSpan)
    return span


@PROTOCOLS
def test_a_backend_tells_the_spans_that_it_was_sent(backend: Backend, protocol: str) -> None:
    service = f"told of {protocol}"
    assert backend.spans(service) == []
    sent = send(backend, protocol, service)
    found = {span.name: span for span in backend.wait_for(2, service)}
    assert backend.spans("another service") == []

    assert sorted(found) == ["child", "parent"]
    for span in sent:
        told = found[span.name]
        assert told.service == service
        assert told.trace_id == format_trace_id(span.context.trace_id)
        assert told.span_id == format_span_id(span.context.span_id)
        assert told.parent_span_id == (format_span_id(span.parent.span_id) if span.parent else None)
        assert span.start_time is not None
        assert span.end_time is not None
        assert abs(told.start_ns - span.start_time) <= 1000
        assert abs(told.duration_ns - (span.end_time - span.start_time)) <= 2000
    assert (
        found["child"].attributes.items()
        >= {
            "text": TEXT,
            "count": 2**60,
            "share": 0.5,
            "good": True,
        }.items()
    )
    assert {name: span.status for name, span in found.items()} == {"parent": "UNSET", "child": "ERROR"}


def test_keys_of_which_one_goes_on_behind_the_other_both_arrive(backend: Backend) -> None:
    attributes: dict[str, AttributeValue] = {
        "kernel_trace.part.prompt": "a text",
        "kernel_trace.part.prompt.path": "a/path.txt",
        "kernel_trace.part.prompt.path.length": 10,
        "openinference.span.kind": "LLM",
    }
    service = "keys behind keys"
    otlp_exporter(backend, "http").export([one_span(service, attributes)])
    (told,) = backend.wait_for(1, service)
    assert told.attributes.items() >= attributes.items()


def test_spans_are_told_past_a_page_of_them(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Phoenix, "page", 3)
    for count in (6, 7):
        service = f"{count} spans"
        otlp_exporter(backend, "http").export([one_span(service, {"number": n}) for n in range(count)])
        told = backend.wait_for(count, service)
        assert sorted(str(span.attributes["number"]) for span in told) == [str(n) for n in range(count)]


@pytest.mark.parametrize(
    ("protocol", "size", "result"),
    [
        ("http", 6_000_000, SpanExportResult.SUCCESS),
        ("grpc", 3_500_000, SpanExportResult.SUCCESS),
        ("grpc", 6_000_000, SpanExportResult.FAILURE),  # past 4 MiB
    ],
)
def test_a_large_text_arrives_whole_or_is_refused(
    backend: Backend, protocol: str, size: int, result: SpanExportResult
) -> None:
    service = f"{size} over {protocol}"
    text = "0123456789" * (size // 10)
    # The exporter over gRPC takes the refusal for one that time heals.
    timeout = 20 if result is SpanExportResult.SUCCESS else 2
    span = one_span(service, {"text": text})
    assert otlp_exporter(backend, protocol, timeout).export([span]) is result
    if result is SpanExportResult.SUCCESS:
        (told,) = backend.wait_for(1, service)
        assert told.attributes["text"] == text
    else:
        assert backend.spans(service) == []


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Phoenix, marks=pytest.mark.phoenix),
        pytest.param(Jaeger, marks=pytest.mark.jaeger),
    ],
)
def test_a_backend_that_is_suspended_answers_again_and_one_that_is_killed_is_gone(
    tmp_path: Path, kind: type[Backend]
) -> None:
    with kind(tmp_path) as own:
        own.suspend()
        for endpoint in (own.otlp_http, own.otlp_grpc):
            url = urllib.parse.urlsplit(endpoint)
            with socket.create_connection((url.hostname, url.port), timeout=0.5) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                with pytest.raises(TimeoutError):
                    connection.recv(1)
        for protocol in ("http", "grpc"):
            unanswered = otlp_exporter(own, protocol, 0.5).export([one_span("tests", {})])
            assert unanswered is SpanExportResult.FAILURE
        own.resume()
        send(own, "http", "after that")
        assert len(own.wait_for(2, "after that")) == 2

        own.suspend()
        own.kill()
        with pytest.raises(OSError, match="refused"):
            own.spans("tests")


def test_a_process_can_be_told_its_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment("a service, of λ=1").items():
        monkeypatch.setenv(name, value)
    assert dict(OTELResourceDetector().detect().attributes) == resource("a service, of λ=1")


@pytest.mark.collector
@PROTOCOLS
def test_the_collector_writes_the_spans_that_it_was_sent(tmp_path: Path, protocol: str) -> None:
    with Collector(tmp_path) as collector:
        sent = send(collector, protocol)
        found = {span["name"]: span for span in collector.wait_for(2)}

    assert sorted(found) == ["child", "parent"]
    for span in sent:
        written = found[span.name]
        assert written["traceId"] == format_trace_id(span.context.trace_id)
        assert written["spanId"] == format_span_id(span.context.span_id)
        assert written.get("parentSpanId", "") == (format_span_id(span.parent.span_id) if span.parent else "")
        assert written["startTimeUnixNano"] == str(span.start_time)
        assert written["endTimeUnixNano"] == str(span.end_time)
    assert {attribute["key"]: attribute["value"] for attribute in found["child"]["attributes"]} == {
        "text": {"stringValue": TEXT},
        "count": {"intValue": str(2**60)},
        "share": {"doubleValue": 0.5},
        "good": {"boolValue": True},
    }


@pytest.mark.collector
def test_a_collector_that_stops_has_written_everything_and_takes_its_own_lines(tmp_path: Path) -> None:
    with Collector(tmp_path / "first") as first:
        send(first, "http")
        first.stop()
    assert len(first.spans()) == 2

    with Collector(tmp_path / "second") as second:
        second.send(first.file)
        second.stop()
    assert second.requests() == first.requests()


@pytest.mark.collector
def test_a_collector_passes_spans_on(tmp_path: Path) -> None:
    with Collector(tmp_path / "last") as last:
        onward: dict[str, object] = {
            "otlp_http": {"endpoint": last.otlp_http},
            "otlp_grpc": {"endpoint": last.otlp_grpc, "tls": {"insecure": True}},
        }
        with Collector(tmp_path / "first", exporters=onward) as first:
            send(first, "http")
            first.stop()
        assert [span["name"] for span in last.wait_for(4)].count("child") == 2


@pytest.mark.collector
def test_the_collector_refuses_what_is_no_otlp_json(tmp_path: Path) -> None:
    span = {"traceId": "xyz", "spanId": "0123456789abcdef", "name": "bad"}
    file = tmp_path / "bad.jsonl"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) + "\n")
    with (
        Collector(tmp_path) as collector,
        pytest.raises(AssertionError, match=r"refused .*bad\.jsonl, line 1"),
    ):
        collector.send(file)


@pytest.mark.collector
def test_the_log_of_a_component_that_does_not_start_is_shown(tmp_path: Path) -> None:
    collector = Collector(tmp_path, exporters={"no_such_exporter": {}})
    with pytest.raises(AssertionError, match=r"(?s)ended with 1 .*no_such_exporter"), collector:
        pass


@pytest.mark.parametrize("name", ["Collector", "Jaeger", "Phoenix"])
def test_a_component_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("KERNEL_TRACE_COMPONENTS", str(tmp_path))
    missing = f"{name} is not there"
    for required in ("", "1", "all but a Jaeger", "jaeger"):
        monkeypatch.setenv("KERNEL_TRACE_REQUIRE_COMPONENTS", required)
        fails = required == "jaeger" if name == "Jaeger" else required
        with pytest.raises(pytest.fail.Exception if fails else pytest.skip.Exception, match=missing):
            component(name)


def test_an_environment_that_is_not_whole_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_TRACE_COMPONENTS", str(tmp_path))
    monkeypatch.delenv("KERNEL_TRACE_REQUIRE_COMPONENTS", raising=False)
    python = tmp_path / components._FILES["Phoenix"][0]
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    with pytest.raises(pytest.skip.Exception, match="Phoenix is not there"):
        component("Phoenix")
    (python.parent.parent / ".complete").touch()
    assert component("Phoenix") == python


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20
