"""Spans as OTLP JSON, and back.

One span is one line, in the format of the OTLP file exporter: ``TracesData`` in the
JSON mapping of OTLP, with ids in hexadecimal, enums as numbers, and 64-bit integers
as decimal strings.
https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.recent import Recent

_KINDS: Final = {
    SpanKind.INTERNAL: 1,
    SpanKind.SERVER: 2,
    SpanKind.CLIENT: 3,
    SpanKind.PRODUCER: 4,
    SpanKind.CONSUMER: 5,
}
_KIND_OF: Final[dict[object, SpanKind]] = {
    **{number: kind for kind, number in _KINDS.items()},
    **{f"SPAN_KIND_{kind.name}": kind for kind in _KINDS},
}
_STATUS_OF: Final[dict[object, StatusCode]] = {
    **{code.value: code for code in StatusCode},
    **{f"STATUS_CODE_{code.name}": code for code in StatusCode},
}
_HAS_SCOPE_ATTRIBUTES: Final = hasattr(InstrumentationScope, "attributes")

_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200
"""Bits of ``flags`` beside those of the W3C trace context, by ``SpanFlags`` of OTLP."""

_MAX_DEPTH = 64
"""Values nested deeper are written as text, and not read."""
_TOO_LARGE = 2**63

_HEX = re.compile("[0-9A-Fa-f]+")
_encoded = json.encoder.encode_basestring
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode

# One each of a provider's and of an instrumentation's life; the object is kept, so that its id stays its own.
_resources: Recent[int, tuple[Resource, str]] = Recent(64)
_scopes: Recent[int, tuple[InstrumentationScope | None, str]] = Recent(256)


def line_of(span: ReadableSpan, attributes: Mapping[str, AttributeValue], dropped: int = 0) -> bytes:
    """A span as a line of its own, line end included.

    Args:
        span: finished, or begun: then it has no end time in the line either.
        attributes: what the line has instead of the span's own.
        dropped: how many are missing of these.
    """
    line = (
        f'{{"resourceSpans":[{{{_resource(span.resource)},"scopeSpans":[{{'
        f'{_scope(span.instrumentation_scope)},"spans":[{_span(span, attributes, dropped)}]}}]}}]}}\n'
    )
    try:
        return line.encode()
    except UnicodeEncodeError:  # lone surrogates, which JSON has escapes for
        return json.dumps(json.loads(line), separators=(",", ":")).encode() + b"\n"


def spans_in(document: object) -> Iterator[ReadableSpan | None]:
    """The spans of a ``TracesData`` that was read from JSON; None for each that is no span.

    Anything may stand there: what has the wrong type is taken for missing.
    """
    for resource_spans in _items(document, "resourceSpans"):
        resource = Resource(
            _attributes_of(_field(resource_spans, "resource")), _text_at(resource_spans, "schemaUrl")
        )
        for scope_spans in _items(resource_spans, "scopeSpans"):
            scope = _field(scope_spans, "scope")
            instrumentation = _scope_of(scope, _text_at(scope_spans, "schemaUrl") or None)
            for span in _items(scope_spans, "spans"):
                yield _span_of(span, resource, instrumentation)


def _string(text: object) -> str:
    # What should be a text is one, as a rule.
    return _encoded(text if isinstance(text, str) else str(text))


def _resource(resource: Resource) -> str:
    known = _resources.get(id(resource))
    if known is None or known[0] is not resource:
        url = f',"schemaUrl":{_string(resource.schema_url)}' if resource.schema_url else ""
        text = f'"resource":{{"attributes":{_key_values(resource.attributes)}}}{url}'
        known = _resources.put(id(resource), (resource, text))
    return known[1]


def _scope(scope: InstrumentationScope | None) -> str:
    known = _scopes.get(id(scope))
    if known is None or known[0] is not scope:
        text = '"scope":{}' if scope is None else _scope_text(scope)
        known = _scopes.put(id(scope), (scope, text))
    return known[1]


def _scope_text(scope: InstrumentationScope) -> str:
    attributes = getattr(scope, "attributes", None)  # SDKs before 1.27 have none
    given = f',"attributes":{_key_values(attributes)}' if attributes else ""
    url = f',"schemaUrl":{_string(scope.schema_url)}' if scope.schema_url else ""
    version = _string(scope.version or "")
    return f'"scope":{{"name":{_string(scope.name)},"version":{version}{given}}}{url}'


def _span(span: ReadableSpan, attributes: Mapping[str, AttributeValue], dropped: int) -> str:
    # Put together by hand, as one is written for every action, in the program's own time.
    context, parent = span.context, span.parent
    fields = [
        f'"traceId":"{context.trace_id:032x}","spanId":"{context.span_id:016x}"'
        if context
        else '"traceId":"","spanId":""'
    ]
    if context and context.trace_state:
        fields.append(f'"traceState":{_string(context.trace_state.to_header())}')
    if parent is not None:
        fields.append(f'"parentSpanId":"{parent.span_id:016x}"')
    fields.append(f'"flags":{_flags(context, parent)},"name":{_string(span.name)}')
    fields.append(f'"kind":{_KINDS.get(span.kind, 0)},"startTimeUnixNano":"{span.start_time or 0}"')
    if span.end_time is not None:
        fields.append(f'"endTimeUnixNano":"{span.end_time}"')
    status = span.status
    if status.status_code is not StatusCode.UNSET:
        message = f',"message":{_string(status.description)}' if status.description else ""
        fields.append(f'"status":{{"code":{status.status_code.value}{message}}}')
    fields.append(f'"attributes":{_key_values(attributes)}')
    if dropped:
        fields.append(f'"droppedAttributesCount":{dropped}')
    if span.events:
        fields.append(f'"events":[{",".join(map(_event, span.events))}]')
    if span.links:
        fields.append(f'"links":[{",".join(map(_link, span.links))}]')
    return f"{{{','.join(fields)}}}"


def _event(event: Event) -> str:
    given = _key_values(event.attributes or {})
    return f'{{"timeUnixNano":"{event.timestamp}","name":{_string(event.name)},"attributes":{given}}}'


def _link(link: Link) -> str:
    context, given = link.context, _key_values(link.attributes or {})
    state = f'"traceState":{_string(context.trace_state.to_header())},' if context.trace_state else ""
    return (
        f'{{"traceId":"{context.trace_id:032x}","spanId":"{context.span_id:016x}",{state}'
        f'"attributes":{given},"flags":{_flags(context, context)}}}'
    )


def _flags(context: SpanContext | None, origin: SpanContext | None) -> int:
    flags = context.trace_flags & 0xFF if context else 0
    return flags | _HAS_IS_REMOTE | (_IS_REMOTE if origin and origin.is_remote else 0)


def _key_values(attributes: Mapping[str, AttributeValue]) -> str:
    pairs = []
    for key, value in attributes.items():
        if type(value) is str:
            pairs.append(f'{_key(key)}{{"stringValue":{_string(value)}}}}}')
        elif type(value) is int and -_TOO_LARGE <= value < _TOO_LARGE:
            pairs.append(f'{_key(key)}{{"intValue":"{value}"}}}}')
        else:
            pairs.append(f"{_key(key)}{_to_json(_any_value(value))}}}")
    return f"[{','.join(pairs)}]"


@lru_cache(512)
def _key(name: str) -> str:
    return f'{{"key":{_string(name)},"value":'


def _any_value(value: object, depth: int = 0) -> dict[str, object]:
    """A value in OTLP's JSON mapping; what it has no type for is written as text."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"stringValue": str.__str__(value)}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        if -_TOO_LARGE <= value < _TOO_LARGE:
            return {"intValue": str(int(value))}
        # Python refuses the decimal digits of very large ones.
        return {"stringValue": str(value) if value.bit_length() < 10_000 else hex(value)}
    if isinstance(value, float):
        return {"doubleValue": float(value) if math.isfinite(value) else _not_finite(value)}
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode()}
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        pairs = [{"key": str(key), "value": _any_value(item, depth + 1)} for key, item in value.items()]
        return {"kvlistValue": {"values": pairs}}
    if depth < _MAX_DEPTH and isinstance(value, Sequence):
        return {"arrayValue": {"values": [_any_value(item, depth + 1) for item in value]}}
    return {"stringValue": str(value)}


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _span_of(span: object, resource: Resource, scope: InstrumentationScope) -> ReadableSpan | None:
    if not isinstance(span, Mapping):
        return None
    flags = _whole_number(span.get("flags"))
    trace_id, span_id = _id_at(span, "traceId", 32), _id_at(span, "spanId", 16)
    context = SpanContext(
        trace_id, span_id, False, TraceFlags(flags & 0xFF), _trace_state(_text_at(span, "traceState"))
    )
    parent_id = _id_at(span, "parentSpanId", 16)
    parent = SpanContext(trace_id, parent_id, bool(flags & _IS_REMOTE)) if parent_id else None
    status = _field(span, "status")
    code = _STATUS_OF.get(_hashable(_field(status, "code")), StatusCode.UNSET)
    start = _whole_number(span.get("startTimeUnixNano"))
    return ReadableSpan(
        _text_at(span, "name"),
        context,
        parent,
        resource,
        attributes=_bounded(_attributes_of(span), _whole_number(span.get("droppedAttributesCount"))),
        events=[
            Event(_text_at(e, "name"), _attributes_of(e), _whole_number(_field(e, "timeUnixNano")))
            for e in _items(span, "events")
        ],
        links=[Link(_linked(link), _attributes_of(link)) for link in _items(span, "links")],
        kind=_KIND_OF.get(_hashable(span.get("kind")), SpanKind.INTERNAL),
        status=Status(code, _text_at(status, "message") or None if code is StatusCode.ERROR else None),
        start_time=start,
        end_time=_whole_number(span.get("endTimeUnixNano")) or None,
        instrumentation_scope=scope,
    )


def _scope_of(scope: object, schema_url: str | None) -> InstrumentationScope:
    name, version = _text_at(scope, "name"), _text_at(scope, "version") or None
    given = _attributes_of(scope)
    if given and _HAS_SCOPE_ATTRIBUTES:
        return InstrumentationScope(name, version, schema_url, given)
    return InstrumentationScope(name, version, schema_url)


def _linked(link: object) -> SpanContext:
    flags = _whole_number(_field(link, "flags"))
    return SpanContext(
        _id_at(link, "traceId", 32),
        _id_at(link, "spanId", 16),
        bool(flags & _IS_REMOTE),
        TraceFlags(flags & 0xFF),
        _trace_state(_text_at(link, "traceState")),
    )


def _attributes_of(holder: object) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for pair in _items(holder, "attributes"):
        key = _text_at(pair, "key")
        if key:
            found[key] = cast("AttributeValue", _value_of(_field(pair, "value")))
    return found


def _bounded(given: dict[str, AttributeValue], dropped: int) -> Mapping[str, AttributeValue]:
    """Attributes that say how many are missing, as a span's own do."""
    if not dropped:
        return given
    bounded = BoundedAttributes(attributes=given)
    bounded.dropped = dropped
    return bounded


def _value_of(value: object, depth: int = 0) -> object:
    if not isinstance(value, Mapping) or depth > _MAX_DEPTH:
        return None
    for kind, content in value.items():
        match kind, content:
            case "stringValue", str():
                return content
            case "boolValue", bool():
                return content
            case "intValue", int() | str():
                return _signed(content)
            case "doubleValue", int() | float() | str():
                return _double(content)
            case "bytesValue", str():
                return _bytes(content)
            case "arrayValue", Mapping():
                return [_value_of(item, depth + 1) for item in _items(content, "values")]
            case "kvlistValue", Mapping():
                pairs = _items(content, "values")
                return {_text_at(p, "key"): _value_of(_field(p, "value"), depth + 1) for p in pairs}
    return None


def _field(holder: object, name: str) -> object:
    return holder.get(name) if isinstance(holder, Mapping) else None


def _items(holder: object, name: str) -> list[object]:
    items = _field(holder, name)
    return items if isinstance(items, list) else []


def _text_at(holder: object, name: str) -> str:
    text = _field(holder, name)
    return text if isinstance(text, str) else ""


def _hashable(value: object) -> object:
    return value if isinstance(value, (int, str)) else None


def _id_at(holder: object, name: str, digits: int) -> int:
    text = _text_at(holder, name)
    return int(text, 16) if len(text) == digits and _HEX.fullmatch(text) else 0


def _trace_state(header: str) -> TraceState:
    return TraceState.from_header([header[:8192]]) if header else TraceState()


def _signed(value: int | str) -> int | str:
    if isinstance(value, str):
        if len(value) > 20:  # int() takes long for a million digits
            return value
        try:
            return int(value)
        except ValueError:
            return value
    return value


def _whole_number(value: object) -> int:
    number = _signed(value) if isinstance(value, (int, str)) else 0
    return number if isinstance(number, int) and 0 <= number < _TOO_LARGE else 0


def _double(value: float | str) -> float | str:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return str(value)


def _bytes(value: str) -> bytes | str:
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        return value
