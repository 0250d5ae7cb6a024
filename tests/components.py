"""Real programs that tests send spans to: backends, which can be asked for their spans, and a Collector.

.ci/components gets them. A test that uses one is skipped where it is not there, or fails there if
KERNEL_TRACE_REQUIRE_COMPONENTS is set; for want of Jaeger or Elasticsearch, only if that names them.

A test of every backend takes the fixture, which a module or a conftest.py picks up by its name:

    backend = components.backend
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from typing_extensions import Self

# What .ci/components makes: the program, and what else has to be there.
_FILES = {
    "Collector": ["otelcol-v0.159.0"],
    "Elasticsearch": ["elasticsearch-8.17.0/bin/elasticsearch", "elasticsearch-8.17.0/.complete"],
    "Jaeger": ["jaeger-v2.20.0"],
    "Phoenix": ["phoenix-20.26.1/bin/python", "phoenix-20.26.1/.complete"],
}
_ANSWERING = 30.0  # seconds, on a machine that is busy with other tests

# Straight to 127.0.0.1, whatever proxy the environment names.
_http = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def component(name: str) -> Path:
    """The program of a component, by its name in _FILES; skips the test where it is not there."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = os.environ.get("KERNEL_TRACE_COMPONENTS") or Path(cache, "otel-kernel-trace", "components")
    files = [Path(folder, file) for file in _FILES[name]]
    if all(file.exists() for file in files) and os.access(files[0], os.X_OK):
        return files[0]
    reason = f"{name} is not there; .ci/components gets it"
    required = os.environ.get("KERNEL_TRACE_REQUIRE_COMPONENTS")
    if required and (name not in ("Jaeger", "Elasticsearch") or name.lower() in required):
        pytest.fail(reason)
    pytest.skip(reason)


def free_ports(n: int) -> list[int]:
    """n TCP ports of 127.0.0.1 that nobody listens on at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _answers(url: str) -> bool:
    try:
        with _http.open(url, timeout=_ANSWERING) as response:
            response.read()
    except OSError:  # also an answer that is an error
        return False
    return True


def resource(service: str) -> dict[str, str]:
    """Resource attributes of spans that a backend is to tell as those of the service.

    Phoenix knows no service.name, only its own attribute, which names one of its projects."""
    return {"service.name": service, "openinference.project.name": service}


def environment(service: str) -> dict[str, str]:
    """resource(service) for a process of its own that reads OpenTelemetry's environment variables."""
    pairs = (f"{key}={urllib.parse.quote(value, safe='')}" for key, value in resource(service).items())
    return {"OTEL_RESOURCE_ATTRIBUTES": ",".join(pairs)}


class _Component(ABC):
    """A program with receivers of OTLP that runs within a with block and logs into a file."""

    name: str
    starting = 60.0
    """Seconds that it may take to start, on a machine that is busy with other tests."""

    otlp_grpc: str
    """Endpoint for an OTLP exporter over gRPC."""
    otlp_http: str
    """Base of the endpoint for an OTLP exporter over HTTP; /v1/traces comes behind it."""

    def __init__(self, folder: Path) -> None:
        """What it writes goes into the folder, which is made."""
        self.binary = component(self.name)
        self.folder = folder
        self.log = folder / f"{self.name.lower()}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self) -> tuple[list[str], dict[str, str]]:
        """What to run in which environment, on free ports, which the endpoints name from now on."""

    @abstractmethod
    def _ready(self) -> bool: ...

    def _log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        for tries_left in (2, 1, 0):
            try:
                self._start()
                break
            except AssertionError:
                # Another process can take a port between free_ports and the start.
                taken = ("address already in use", "Failed to bind to address")
                if not tries_left or not any(text in self._log_text() for text in taken):
                    raise
        return self

    def _start(self) -> None:
        command, variables = self._command()
        # Where a test process is killed, __exit__ does not run.
        if setpriv := shutil.which("setpriv"):
            command[:0] = [setpriv, "--pdeathsig", "KILL"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + self.starting
            while not self._ready():
                if self._process.poll() is not None:
                    raise self._error(f"ended with {self._process.returncode} instead of starting")
                if time.monotonic() > deadline:
                    raise self._error(f"was not ready within {self.starting:g} s")
                time.sleep(0.05)
        except BaseException:
            self.kill()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _error(self, what: str) -> AssertionError:
        return AssertionError(f"{self.name} {what}; the end of {self.log}:\n{self._log_text()[-4000:]}")

    def kill(self) -> None:
        """SIGKILL: what it had not written is lost."""
        if self._process and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def suspend(self) -> None:
        """SIGSTOP: from now on its ports take connections and requests, and nothing answers.

        A request that a client gave up by then may still be obeyed after resume(); Phoenix drops it."""
        assert self._process
        os.killpg(self._process.pid, signal.SIGSTOP)
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), self._error("ended")

    def resume(self) -> None:
        """SIGCONT: it goes on."""
        assert self._process
        os.killpg(self._process.pid, signal.SIGCONT)


class _OfCollectorParts(_Component):
    """A program on the Collector's frame, with an otlp receiver: one config file, a log on stderr."""

    other_ports: int
    """How many it listens on beside those of the receiver."""

    @abstractmethod
    def _config(self, addresses: list[str]) -> dict[str, Any]:
        """The config beside the receiver's, listening on these other addresses only."""

    def _command(self) -> tuple[list[str], dict[str, str]]:
        grpc, http, *others = (f"127.0.0.1:{port}" for port in free_ports(2 + self.other_ports))
        self.otlp_grpc, self.otlp_http = f"http://{grpc}", f"http://{http}"
        config = self._config(others)
        config["receivers"] = {
            "otlp": {"protocols": {"grpc": {"endpoint": grpc}, "http": {"endpoint": http}}}
        }
        config["service"] |= {
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": list(config["exporters"])}},
            "telemetry": {"metrics": {"level": "none"}},  # they would be served on a fixed port
        }
        file = self.folder / f"{self.name.lower()}.json"  # JSON is YAML
        file.write_text(json.dumps(config, indent=1))
        return [str(self.binary), "--config", str(file)], dict(os.environ)

    def _ready(self) -> bool:
        return "Everything is ready" in self._log_text()

    def stop(self) -> None:
        """SIGTERM, and wait: what it was given is written then."""
        assert self._process
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(_ANSWERING)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._error(f"did not stop within {_ANSWERING:g} s") from None
        if status:
            raise self._error(f"ended with {status}")


@dataclass(frozen=True)
class StoredSpan:
    """A span as a backend tells it."""

    trace_id: str
    """In hexadecimal, as the other ids."""
    span_id: str
    parent_span_id: str | None
    name: str
    start_ns: int
    """Of a backend that keeps microseconds: within 1000 of what was sent."""
    duration_ns: int
    """Of a backend that keeps microseconds: within 2000 of what was sent."""
    attributes: dict[str, object]
    """By dotted key; a backend can add some of its own."""
    service: str | None
    status: str
    """UNSET, OK or ERROR."""


class Backend(_Component):
    """A program that keeps the spans that it is sent and can be asked for them."""

    @abstractmethod
    def spans(self, service: str) -> list[StoredSpan]:
        """The spans of a service that it has now, whatever their time; see resource()."""

    def wait_for(self, count: int, service: str, seconds: float = _ANSWERING) -> list[StoredSpan]:
        """spans(service), as soon as there are so many."""
        deadline = time.monotonic() + seconds
        while True:
            asked = time.monotonic()
            if len(spans := self.spans(service)) >= count:
                return spans
            answered = time.monotonic()
            if answered > deadline:
                raise self._error(f"has {len(spans)} spans of {service} instead of {count}")
            # Answering must not keep it from taking in the rest.
            time.sleep(max(0.1, answered - asked))


class Phoenix(Backend):
    """An Arize Phoenix with a database in its folder, which another on that folder goes on with.

    - It answers an exporter before it writes: what it has confirmed can be lost by kill(), and a span
      with an attribute of bytes is confirmed and never kept.
    - Over gRPC it takes requests of up to 4 MiB, over HTTP of any size, but as protobuf only.
    - It writes some 100 spans a second. A span whose id it has is not taken again.
    - It keeps of a resource nothing but its own project, and no kind, scope or link of a span. A trace
      is in the project of its first span.
    - It adds attributes of its own to those of a gen_ai span, reads metadata as JSON and leaves out
      a float that is no finite number.
    - It listens for gRPC on every address of the machine."""

    name = "Phoenix"
    starting = 150.0  # more than ten seconds of computing
    page = 1000
    """Spans to ask for at once, 1000 at most."""
    _first = datetime(1970, 1, 1, tzinfo=timezone.utc)

    def _command(self) -> tuple[list[str], dict[str, str]]:
        grpc, http = free_ports(2)
        self.otlp_grpc, self.otlp_http = f"http://127.0.0.1:{grpc}", f"http://127.0.0.1:{http}"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "PHOENIX_"))}
        settings = {
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(http),
            "PHOENIX_GRPC_PORT": str(grpc),
            "PHOENIX_WORKING_DIR": str(self.folder),
            "PHOENIX_TELEMETRY_ENABLED": "false",
            "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
            "PHOENIX_ALLOWED_SANDBOX_PROVIDERS": "NONE",
            "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
            "PHOENIX_ENABLE_MCP_SERVER": "false",
            "PHOENIX_LOG_MIGRATIONS": "false",
        }
        return [str(self.binary), "-I", "-m", "phoenix.server.main", "serve"], kept | settings

    def _ready(self) -> bool:
        return _answers(f"{self.otlp_http}/readyz")

    def spans(self, service: str) -> list[StoredSpan]:
        """service: of a name without a slash, which its API could not ask for."""
        found: list[StoredSpan] = []
        # In the order of their writing, so that what is written meanwhile comes last.
        parameters: dict[str, str | int] = {"limit": self.page, "sort": "id", "order": "asc"}
        project = f"{self.otlp_http}/v1/projects/{urllib.parse.quote(service, safe='')}"
        while True:
            try:
                with _http.open(
                    f"{project}/spans?{urllib.parse.urlencode(parameters)}", timeout=_ANSWERING
                ) as response:
                    page = json.load(response)
            except urllib.error.HTTPError as refusal:
                with refusal:
                    answer = refusal.read().decode(errors="replace")
                if refusal.code == 404 and answer.startswith("Project with name"):
                    return []
                raise self._error(f"does not tell the spans of {service}: {refusal}: {answer}") from None
            found += (self._span(span, service) for span in page["data"])
            if page["next_cursor"] is None:
                return found
            parameters["cursor"] = page["next_cursor"]

    def _span(self, span: dict[str, Any], service: str) -> StoredSpan:
        start = self._microseconds(span["start_time"])
        # The one attribute that its API does not tell among the others.
        kind = {} if span["span_kind"] == "UNKNOWN" else {"openinference.span.kind": span["span_kind"]}
        return StoredSpan(
            trace_id=span["context"]["trace_id"],
            span_id=span["context"]["span_id"],
            parent_span_id=span["parent_id"],
            name=span["name"],
            start_ns=1000 * start,
            duration_ns=1000 * (self._microseconds(span["end_time"]) - start),
            attributes=span["attributes"] | kind,
            service=service,
            status=span["status_code"],
        )

    def _microseconds(self, moment: str) -> int:
        return (datetime.fromisoformat(moment) - self._first) // timedelta(microseconds=1)


class Jaeger(_OfCollectorParts, Backend):
    """A Jaeger that keeps spans in memory.

    It keeps a list as text, and makes attributes of the kind, scope and status of a span."""

    name = "Jaeger"
    other_ports = 3

    query: str
    """Base of the query API, and the address of the UI."""

    def _config(self, addresses: list[str]) -> dict[str, Any]:
        query, query_grpc, health = addresses
        self.query, self._health = f"http://{query}", f"http://{health}/status"
        return {
            "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
            "extensions": {
                "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": 100_000}}}},
                "jaeger_query": {
                    "storage": {"traces": "memory"},
                    "http": {"endpoint": query},
                    "grpc": {"endpoint": query_grpc},
                },
                "healthcheckv2": {"use_v2": True, "http": {"endpoint": health}},
            },
            "service": {"extensions": ["jaeger_storage", "jaeger_query", "healthcheckv2"]},
        }

    def _ready(self) -> bool:
        return _answers(self._health) and _answers(f"{self.query}/api/services")

    def spans(self, service: str) -> list[StoredSpan]:
        """Those of at most 10000 traces."""
        parameters = {
            "service": service,
            "limit": 10_000,
            "start": 1,
            "end": time.time_ns() // 1000 + 86_400_000_000,
            "raw": "true",  # times as they were sent
        }
        url = f"{self.query}/api/traces?{urllib.parse.urlencode(parameters)}"
        with _http.open(url, timeout=_ANSWERING) as response:
            found = json.load(response)["data"]
        return [
            self._span(span, service)
            for trace in found
            for span in trace["spans"]
            if trace["processes"][span["processID"]]["serviceName"] == service
        ]

    def _span(self, span: dict[str, Any], service: str) -> StoredSpan:
        parents = [
            reference["spanID"]
            for reference in span["references"]
            if reference["refType"] == "CHILD_OF" and reference["traceID"] == span["traceID"]
        ]
        # An integer past 2**53 is a string there, for the JavaScript of its UI.
        attributes = {
            tag["key"]: int(tag["value"]) if tag["type"] == "int64" else tag["value"] for tag in span["tags"]
        }
        return StoredSpan(
            trace_id=span["traceID"],
            span_id=span["spanID"],
            parent_span_id=parents[0] if parents else None,
            name=span["operationName"],
            start_ns=1000 * span["startTime"],
            duration_ns=1000 * span["duration"],
            attributes=attributes,
            service=service,
            status=str(attributes.get("otel.status_code", "UNSET")),
        )


_shared: dict[type[Backend], Backend] = {}


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(Phoenix, id="phoenix", marks=pytest.mark.phoenix),
        pytest.param(Jaeger, id="jaeger", marks=pytest.mark.jaeger),
    ],
)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Backend:
    """Each backend in turn, running, one for all tests of this process: take services of your own, and
    do not end or suspend it."""
    kind: type[Backend] = request.param
    if kind not in _shared:  # by way of another module
        started = kind(tmp_path_factory.mktemp(kind.name.lower())).__enter__()
        _shared[kind] = started
        request.config.add_cleanup(started.kill)
    return _shared[kind]


class Collector(_OfCollectorParts):
    """An OpenTelemetry Collector that runs within a with block and writes spans to a file."""

    name = "Collector"
    other_ports = 0

    def __init__(self, folder: Path, exporters: Mapping[str, object] | None = None) -> None:
        """exporters: further ones that get every span, name → config: otlp_grpc, otlp_http, debug."""
        super().__init__(folder)
        self.file = folder / "collected.jsonl"
        """What its file exporter writes: a line of OTLP JSON for each request that came in."""
        self._exporters = dict(exporters or {})

    def _config(self, addresses: list[str]) -> dict[str, Any]:
        file = {"path": str(self.file), "flush_interval": "100ms"}
        return {"exporters": {"file": file, **self._exporters}, "service": {}}

    def send(self, file: Path) -> None:
        """Hand over a file of OTLP JSON, a request a line; fails if it refuses a line or a span."""
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            request = urllib.request.Request(
                f"{self.otlp_http}/v1/traces", data=line, headers={"Content-Type": "application/json"}
            )
            try:
                with _http.open(request, timeout=_ANSWERING) as response:
                    answer = json.load(response)
            except urllib.error.HTTPError as refusal:
                with refusal:
                    answer = refusal.read().decode(errors="replace")
                raise self._error(f"refused {file}, line {number}: {refusal}: {answer}") from None
            if int(answer.get("partialSuccess", {}).get("rejectedSpans", 0)):
                raise self._error(f"refused spans of {file}, line {number}: {answer}")

    def requests(self) -> list[dict[str, Any]]:
        """What came in and is written by now, as OTLP JSON; all of it after stop()."""
        if not self.file.exists():
            return []
        lines = self.file.read_bytes().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith(b"\n")]

    def spans(self) -> list[dict[str, Any]]:
        """The spans of requests(), as OTLP JSON."""
        return [
            span
            for request in self.requests()
            for resource in request["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        """spans(), as soon as there are so many."""
        deadline = time.monotonic() + _ANSWERING
        while len(spans := self.spans()) < count:
            if time.monotonic() > deadline:
                raise self._error(f"has {len(spans)} spans instead of {count}")
            time.sleep(0.05)
        return spans
