"""OpenTelemetry's exporters, and what really came of their requests."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_kernel_trace.sending.endpoint import Endpoint, SendError

_PACKAGE: Final = "opentelemetry-exporter-otlp-proto-{}"
_MAX_REASON_CHARS = 300


class Connection:
    """The connection to a backend, within a with block: sends a batch, or says why it could not."""

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str]) -> None:
        self.reason = ""
        """Why spans of the last batch were rejected."""
        self._endpoint = endpoint
        self._headers = headers
        self._attempts: list[_Attempt] = []
        """What came of the last request over HTTP."""

    def __enter__(self) -> Connection:
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
