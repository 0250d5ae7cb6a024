"""A tree to a backend, over OTLP: once, and no span twice though the run be interrupted.

OpenTelemetry's own exporters encode, send and retry. What a backend has taken is
remembered in the user's cache folder, a line for each request that succeeded.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NoReturn
from urllib.parse import SplitResult, urlsplit

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Status
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.indexed import Passed
from otel_kernel_trace.linked import LinkedSpanExporter, batches
from otel_kernel_trace.record import attributes_of, read_record, with_attributes
from otel_kernel_trace.reference import Written
from otel_kernel_trace.transfer import Told, whole_spans
from otel_kernel_trace.written import remember

_PATH: Final = "/v1/traces"
_PACKAGE: Final = "opentelemetry-exporter-otlp-proto-{}"
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TOO_LARGE = 2**63
_MAX_REASON_CHARS = 300


class SendError(Exception):
    """Spans could not be sent; the message says why, in a sentence."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where spans are sent to."""

    url: str
    """As its exporter takes it."""
    protocol: Literal["http", "grpc"]
    shown: str
    """As it may be shown: without user and password."""

    @classmethod
    def of(cls, text: str) -> Endpoint:
        """An endpoint as a user names it.

        Args:
            text: base of an OTLP/HTTP endpoint, to which ``/v1/traces`` is added, or all of
                it; or ``grpc://host:port``, with TLS ``grpcs://host:port``.

        Raises:
            ValueError: it is none of these.
        """
        try:
            url = urlsplit(text.strip())
            is_complete = bool(url.hostname and (url.port is None or url.port))
        except ValueError:
            is_complete = False
        if not is_complete or url.scheme not in ("http", "https", "grpc", "grpcs"):
            raise ValueError(
                f"an endpoint is a URL, as http://localhost:4318 or grpc://localhost:4317, not {text!r}"
            )
        if url.scheme in ("grpc", "grpcs"):
            if url.path.strip("/") or url.query:
                raise ValueError(f"an endpoint of gRPC is a host and a port, not {text!r}")
            taken = url._replace(scheme="https" if url.scheme == "grpcs" else "http", path="")
            return cls(taken.geturl(), "grpc", _shown(url))
        path = url.path.rstrip("/")
        whole = url._replace(path=path if path.endswith(_PATH) else path + _PATH, fragment="")
        return cls(whole.geturl(), "http", _shown(whole))


def _shown(url: SplitResult) -> str:
    return url._replace(netloc=url.netloc.rpartition("@")[2], query="").geturl()


def headers_of(given: Iterable[str]) -> dict[str, str]:
    """Headers by name, from texts as ``NAME=VALUE``.

    Raises:
        ValueError: a text is none; its value, which may be a secret, is not told.
    """
    headers = {}
    for text in given:
        name, is_pair, value = (word.strip() for word in text.partition("="))
        if not is_pair or not _HEADER_NAME.fullmatch(name):
            raise ValueError("a header is NAME=VALUE, as authorization='Bearer …'")
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"the value of the header {name} can't be sent: it is to be printable ASCII")
        headers[name.lower()] = value
    return headers


@dataclass(slots=True)
class Delivered:
    """What a run sent, and what it did not."""

    spans: int = 0
    """Sent, and taken by the backend."""
    known: int = 0
    """Sent by an earlier run."""
    pending: int = 0
    """Begun and not ended, and left out."""
    without_id: int = 0
    """Left out: the protocol has no span without ids."""
    rejected: int = 0
    """Refused by the backend one by one."""
    reason: str = ""
    """Why, in the backend's words."""
    passed: Passed = field(default_factory=Passed)


_Key = tuple[str, str, int]
"""Trace id and span id, in hexadecimal, and the end in nanoseconds since 1970; 0 where it has not ended.

A span that a forked child ended too has two ends; and one that was sent when it had begun
is sent again when it has ended."""


class SentSpans:
    """Which spans of a tree a backend has, kept in a file.

    A line of JSON for each request that succeeded; the first says what the file is of. A
    last line that was cut counts for nothing, so that a span is rather sent twice than never.

    Args:
        log_dir: root of the tree.
        endpoint: the backend's.
    """

    def __init__(self, log_dir: str, endpoint: Endpoint) -> None:
        self._of = {"tree": os.path.realpath(log_dir), "endpoint": endpoint.shown}
        digest = hashlib.sha256(f"{self._of['tree']}\0{endpoint.url}".encode("utf-8", "surrogateescape"))
        cache = os.environ.get("XDG_CACHE_HOME", "")  # to be ignored where it is no absolute path
        folder = Path(cache) if os.path.isabs(cache) else Path("~/.cache").expanduser()
        self.path = folder / "otel-kernel-trace" / "sent" / f"{digest.hexdigest()}.jsonl"
        self._keys: set[_Key] = set()

    def load(self) -> None:
        """Read what earlier runs sent.

        Raises:
            OSError: the file is there and can't be read.
        """
        self._keys.clear()
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines[:-1]:
            self._keys.update(_keys_in(line))

    def forget(self) -> None:
        """Have it that nothing was sent.

        Raises:
            OSError: the file can't be deleted.
        """
        self._keys.clear()
        self.path.unlink(missing_ok=True)

    def prepare(self) -> None:
        """See to it that there is a file to which lines can be added.

        Raises:
            OSError: there can be none.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size == 0:
                file.write(_line(self._of))
            else:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")  # behind a line that was cut

    def add(self, keys: Sequence[_Key]) -> None:
        """Remember spans as sent.

        Raises:
            OSError: they can't be written.
        """
        line = _line({"sent": [f"{trace}-{span}-{end}" for trace, span, end in keys]})
        with self.path.open("ab", buffering=0) as file:
            if file.write(line) < len(line):
                raise OSError(f"{self.path} is cut")
        self._keys.update(keys)

    def __contains__(self, key: _Key) -> bool:
        return key in self._keys


def _line(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _keys_in(line: bytes) -> Iterator[_Key]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return
    sent = content.get("sent") if isinstance(content, dict) else None
    for text in sent if isinstance(sent, list) else ():
        trace, _, rest = str(text).partition("-")
        span, _, end = rest.partition("-")
        if end.isdecimal():
            yield trace, span, int(end)


def send_tree(
    log_dir: str,
    endpoint: Endpoint,
    *,
    headers: Mapping[str, str] | None = None,
    preview_chars: int | None = None,
    whole: bool = False,
    pending: bool = False,
    again: bool = False,
    on_span: Callable[[], object] = lambda: None,
    on_count: Callable[[int], object] = lambda _: None,
) -> Delivered:
    """Send the spans of a tree to a backend, those that it has by an earlier run excepted.

    Long texts go as previews with references to their files, as of
    :class:`~otel_kernel_trace.LinkedSpanExporter`. How long a request may take, how it is
    compressed and certificates are up to the environment, as ``OTEL_EXPORTER_OTLP_TIMEOUT``.

    Args:
        log_dir: root of the tree, which is only read.
        endpoint: where to.
        headers: sent with every request.
        preview_chars: characters that are left of a long text; default: that of the environment.
        whole: send all of every text.
        pending: send what has begun and not ended too, with its start for an end.
        again: forget what was sent before.
        on_span, on_count: as of :func:`~otel_kernel_trace.transfer.whole_spans`.

    Raises:
        SendError: the backend did not take them, or its exporter is not there. What it
            took before is remembered.
        OSError: the tree can't be read, or what was sent not be remembered.
        ValueError: ``preview_chars`` is none.
    """
    done = Delivered()
    sent = SentSpans(log_dir, endpoint)
    if again:
        sent.forget()
    sent.load()
    is_known: set[_Key] = set()

    def is_wanted(span: ReadableSpan) -> bool:
        key = key_of(span)
        if key is None:
            done.without_id += 1
        elif span.end_time is None and not pending:
            done.pending += 1
        elif key in sent or key in is_known:
            done.known += 1
        else:
            is_known.add(key)  # two shards may have the same line
            return True
        return False

    with _Line(endpoint, headers or {}) as line:
        sent.prepare()
        told = whole_spans(log_dir, done.passed, is_wanted=is_wanted, on_span=on_span, on_count=on_count)
        keys: dict[int, _Key] = {}
        shortened = _shortened(told, os.path.realpath(log_dir), sys.maxsize if whole else preview_chars, keys)
        for batch in batches(shortened):
            if not batch:
                continue
            rejected = line.send(batch)
            of_batch = [keys.pop(id(span)) for span in batch]
            if rejected:
                done.rejected += rejected
                done.reason = line.reason
            else:
                sent.add(of_batch)
            done.spans += len(batch) - rejected
    return done


def key_of(span: ReadableSpan) -> _Key | None:
    """By what a span is remembered; None for one without ids."""
    context = span.context
    if context is None or not (context.trace_id and context.span_id):
        return None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}", span.end_time or 0


def _shortened(
    told: Iterable[Told], log_dir: str, preview_chars: int | None, keys: dict[int, _Key]
) -> Iterator[ReadableSpan]:
    """Spans as a backend gets them; ``keys`` has theirs by ``id()`` from then on."""
    taken = _Taken()
    linked = LinkedSpanExporter(taken, preview_chars)
    for one in told:
        record = read_record(one.span)
        given = dict(one.whole)
        if record is None:
            given.pop(attributes.LAYOUT, None)  # a model call has nothing of ours
        whole = _ended(with_attributes(one.span, given))
        if record is not None:
            # As if it had been recorded just now: where its texts are.
            remember(whole, log_dir, Written(record.step or 0, one.references))
        linked.export([whole])
        span = _encodable(taken.spans.pop())
        key = key_of(one.span)
        assert key is not None
        keys[id(span)] = key
        yield span


class _Taken(SpanExporter):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


def _ended(span: ReadableSpan) -> ReadableSpan:
    """A span with an end: the protocol has none without."""
    if span.end_time is not None:
        return span
    given = {**attributes_of(span), attributes.PENDING: True}
    return _copy(span, given=given, end_time=span.start_time)


def _encodable(span: ReadableSpan) -> ReadableSpan:
    """A span that protobuf can hold: it refuses lone surrogates, and all of the request with them."""
    given = _encodable_attributes(span.attributes)
    events = [Event(_text(e.name), _encodable_attributes(e.attributes), e.timestamp) for e in span.events]
    links = [Link(link.context, _encodable_attributes(link.attributes)) for link in span.links]
    status = Status(span.status.status_code, _text(span.status.description or "") or None)
    is_same = given == span.attributes and _text(span.name) == span.name
    is_same = is_same and status.description == (span.status.description or None)
    is_same = is_same and all(
        new.name == old.name and new.attributes == (old.attributes or {})
        for new, old in zip(events, span.events, strict=True)
    )
    is_same = is_same and all(
        new.attributes == (old.attributes or {}) for new, old in zip(links, span.links, strict=True)
    )
    if is_same:
        return span
    return _copy(span, name=_text(span.name), given=given, events=events, links=links, status=status)


def _copy(
    span: ReadableSpan,
    *,
    given: Mapping[str, AttributeValue],
    name: str | None = None,
    events: Sequence[Event] | None = None,
    links: Sequence[Link] | None = None,
    status: Status | None = None,
    end_time: int | None = None,
) -> ReadableSpan:
    if span.dropped_attributes:
        bounded = BoundedAttributes(attributes=given)
        bounded.dropped = span.dropped_attributes
        given = bounded
    return ReadableSpan(
        span.name if name is None else name,
        span.context,
        span.parent,
        span.resource,
        attributes=given,
        events=span.events if events is None else events,
        links=span.links if links is None else links,
        kind=span.kind,
        status=span.status if status is None else status,
        start_time=span.start_time,
        end_time=span.end_time if end_time is None else end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _encodable_attributes(given: Mapping[str, AttributeValue] | None) -> dict[str, AttributeValue]:
    return {_text(name): _encodable_value(value) for name, value in (given or {}).items()}


def _encodable_value(value: Any) -> Any:
    # Values nest as those of JSON do.
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int) and not isinstance(value, bool) and not -_TOO_LARGE <= value < _TOO_LARGE:
        return str(value)
    if isinstance(value, Mapping):
        return {_text(str(name)): _encodable_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_encodable_value(item) for item in value)
    return value


def _text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class _Line:
    """The connection to a backend, within a with block: sends a batch, or says why it could not."""

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str]) -> None:
        self.reason = ""
        """Why spans of the last batch were rejected."""
        self._endpoint = endpoint
        self._headers = headers
        self._attempts: list[_Attempt] = []
        """What came of the last request over HTTP."""

    def __enter__(self) -> _Line:
        self._told = _Told()
        self._quiet = _quiet("opentelemetry.exporter", self._told)
        self._quiet.__enter__()
        try:
            make = _http_exporter if self._endpoint.protocol == "http" else _grpc_exporter
            self._exporter = make(self._endpoint.url, self._headers, self._attempts)
        except ModuleNotFoundError as error:
            self._quiet.__exit__(None, None, None)
            package = _PACKAGE.format(self._endpoint.protocol)
            raise SendError(f"sending needs a package that is not there: pip install {package}") from error
        except BaseException:
            self._quiet.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._exporter.shutdown()
        self._quiet.__exit__(None, None, None)

    def send(self, batch: Sequence[ReadableSpan]) -> int:
        """Send a batch.

        Returns:
            How many of its spans the backend says that it has not taken.

        Raises:
            SendError: it did not take the batch.
        """
        self._attempts.clear()
        self._told.records.clear()
        result = self._exporter.export(batch)
        attempt = self._attempts[-1] if self._attempts else None
        if attempt is not None:
            # The exporter takes any answer below 400 for a success, also a page to log in.
            attempt.check(self._endpoint)
        if result is not SpanExportResult.SUCCESS:
            self._fail(batch)
        rejected, self.reason = (0, "") if attempt is None else attempt.rejected()
        return min(rejected, len(batch))

    def _fail(self, batch: Sequence[ReadableSpan]) -> NoReturn:
        where = self._endpoint.shown
        code, details = self._told.grpc_error()
        if "connection refused" in details.lower():
            details = "connection refused"
        match code:
            case "UNAVAILABLE" | "DEADLINE_EXCEEDED":
                why = f"{where} can't be reached: {details}"
            case "UNIMPLEMENTED":
                why = f"{where} does not take OTLP over gRPC: is it the right port?"
            case "UNAUTHENTICATED" | "PERMISSION_DENIED":
                why = f"{where} refuses: {details or code}; give what it wants with --header NAME=VALUE"
            case "":
                why = f"{where} did not take {len(batch)} spans: {self._told.last() or 'nothing says why'}"
            case _:
                why = f"{where} did not take {len(batch)} spans: {code}: {details}"
        raise SendError(_short(why))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What came of a request over HTTP."""

    status: int = 0
    """0 where there was no answer."""
    phrase: str = ""
    content_type: str = ""
    body: Callable[[], bytes] = bytes
    error: Exception | None = None

    def check(self, endpoint: Endpoint) -> None:
        """See whether it was taken.

        Raises:
            SendError: it was not.
        """
        where, code = endpoint.shown, f"{self.status} {self.phrase}".strip()
        if self.error is not None:
            raise SendError(_short(f"{where} can't be reached: {_reason(self.error)}")) from self.error
        if 200 <= self.status < 300:
            if self.content_type.startswith("text/html"):
                raise SendError(f"{where} answers with a page: is it the base of an OTLP/HTTP endpoint?")
            return
        match self.status:
            case 404 | 405:
                why = f"{where} says {code}: is it the base of an OTLP/HTTP endpoint?"
            case 401 | 403 | 407:
                why = f"{where} refuses: {code}; give what it wants with --header NAME=VALUE"
            case 413:
                why = f"{where} says {code}: a request is too large for it; try smaller --preview-chars"
            case 429 | 502 | 503 | 504:
                why = f"{where} is busy: {code}; the same command goes on later"
            case _ if self.status < 400:
                why = f"{where} leads elsewhere ({code}): give the endpoint itself"
            case _:
                text = self.body()[:1000].decode("utf-8", "replace")
                said = f": {' '.join(text.split())}" if text.isprintable() else ""
                why = f"{where} says {code}{said}"
        raise SendError(_short(why))

    def rejected(self) -> tuple[int, str]:
        """How many spans the answer says that were not taken, and why."""
        if self.content_type.partition(";")[0] != "application/x-protobuf":
            return 0, ""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        try:
            partial = ExportTraceServiceResponse.FromString(self.body()).partial_success
        except Exception:  # noqa: BLE001 - it was taken, whatever else stands there
            return 0, ""
        return int(partial.rejected_spans), _short(str(partial.error_message))


def _http_exporter(url: str, headers: Mapping[str, str], attempts: list[_Attempt]) -> SpanExporter:
    """The exporter over HTTP; ``attempts`` gets what comes of its requests, which it does not tell."""
    module = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    import requests
    from requests.adapters import HTTPAdapter

    class Watched(HTTPAdapter):
        def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
            try:
                response = super().send(request, *args, **kwargs)
            except Exception as error:
                attempts.append(_Attempt(error=error))
                raise
            content_type = response.headers.get("Content-Type", "").lower()
            attempts.append(
                _Attempt(response.status_code, response.reason or "", content_type, lambda: response.content)
            )
            return response

    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, Watched())
    exporter = module.OTLPSpanExporter(endpoint=url, headers=dict(headers), session=session)
    assert isinstance(exporter, SpanExporter)
    return exporter


def _grpc_exporter(url: str, headers: Mapping[str, str], _: list[_Attempt]) -> SpanExporter:
    module = importlib.import_module("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
    exporter = module.OTLPSpanExporter(endpoint=url, headers=tuple(headers.items()) or None)
    assert isinstance(exporter, SpanExporter)
    return exporter


class _Told(logging.Handler):
    """What the exporter logs, which is all that it tells of a failure over gRPC."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def last(self) -> str:
        return self.records[-1].getMessage() if self.records else ""

    def grpc_error(self) -> tuple[str, str]:
        """Name of the last status code and what was said beside it; both empty where there was none."""
        for record in reversed(self.records):
            given = record.args if isinstance(record.args, tuple) else ()
            for code in given:
                if type(code).__name__ == "StatusCode":
                    details = [one for one in given if isinstance(one, str)]
                    return str(getattr(code, "name", code)), details[-1] if details else ""
        return "", ""


@contextmanager
def _quiet(name: str, handler: logging.Handler) -> Iterator[None]:
    """What is logged goes to the handler alone: of a failure the user gets one sentence."""
    logger = logging.getLogger(name)
    propagates = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = propagates
        logger.removeHandler(handler)


def _reason(error: BaseException) -> str:
    """What went wrong at the bottom of an error of requests, which wraps others."""
    names = {type(error).__name__}
    seen: list[BaseException] = []
    here: object = error
    while isinstance(here, BaseException) and here not in seen:
        seen.append(here)
        names.add(type(here).__name__)
        inner = getattr(here, "reason", None)
        first = here.args[0] if here.args else None
        here = next((e for e in (here.__cause__, inner, first) if isinstance(e, BaseException)), None)
    bottom = seen[-1]
    if isinstance(bottom, ConnectionRefusedError) or "refused" in str(error):
        return "connection refused"
    if "gaierror" in names or "NameResolutionError" in names:
        return "there is no host of that name"
    if any("Timeout" in name for name in names):
        return "it did not answer in time (OTEL_EXPORTER_OTLP_TIMEOUT sets how many seconds it has)"
    if isinstance(bottom, OSError) and bottom.strerror:
        return bottom.strerror
    return " ".join(str(bottom).split()) or type(bottom).__name__


def _short(text: str) -> str:
    return text if len(text) <= _MAX_REASON_CHARS else text[: _MAX_REASON_CHARS - 1] + "…"
