"""Spans as lines of OTLP JSON and back: nothing that OTLP can hold is lost, and nothing in a file harms."""

from __future__ import annotations

import base64
import copy
import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.otlp import line_of, spans_in
from otel_kernel_trace.record import attributes_of, read_record

_FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

_TRACE_ID, _SPAN_ID, _PARENT_ID = 0x0AF7651916CD43DD8448EB211C80319C, 0x00F067AA0BA902B7, 0xB7AD6B7169203331
_CONTEXT = SpanContext(_TRACE_ID, _SPAN_ID, False, TraceFlags(1))


def _span(
    name: str = "a span",
    attributes: Mapping[str, AttributeValue] | None = None,
    *,
    context: SpanContext = _CONTEXT,
    parent: SpanContext | None = None,
    events: Sequence[Event] = (),
    links: Sequence[Link] = (),
    kind: SpanKind = SpanKind.INTERNAL,
    status: Status | None = None,
    resource: Mapping[str, AttributeValue] | None = None,
    end_time: int | None = 1_700_000_000_000_000_002,
) -> ReadableSpan:
    return ReadableSpan(
        name,
        context,
        parent,
        Resource(resource or {}),
        attributes=attributes,
        events=events,
        links=links,
        kind=kind,
        status=status or Status(),
        start_time=1_700_000_000_000_000_001,
        end_time=end_time,
        instrumentation_scope=InstrumentationScope("tests", "1.0"),
    )


def _line(span: ReadableSpan) -> bytes:
    return line_of(span, attributes_of(span))


def _json_of(span: ReadableSpan) -> dict[str, Any]:
    """The span itself as it stands in its line."""
    [resource_spans] = json.loads(_line(span))["resourceSpans"]
    [scope_spans] = resource_spans["scopeSpans"]
    [written] = scope_spans["spans"]
    return cast("dict[str, Any]", written)


def _read(line: bytes) -> ReadableSpan:
    [span] = spans_in(json.loads(line))
    assert span is not None
    return span


def _document(span: object) -> dict[str, object]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def _value_read(value: object) -> object:
    """What is read of an attribute that has ``value`` in the file."""
    [span] = spans_in(_document({"attributes": [{"key": "a", "value": value}]}))
    assert span is not None
    return attributes_of(span).get("a")


def _plain(value: object) -> object:
    """A value so that equal is what OTLP has the same value for; of integers it has 64 bits."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if type(value) is int and not -(2**63) <= value < 2**63:
        return ("str", repr(str(value)))
    return (type(value).__name__, repr(value))


def _told(span: ReadableSpan) -> dict[str, object]:
    """All that a line tells of a span."""
    scope = span.instrumentation_scope
    return {
        "name": span.name,
        "context": span.context,
        "parent": span.parent and (span.parent.trace_id, span.parent.span_id, span.parent.is_remote),
        "kind": span.kind,
        "times": (span.start_time, span.end_time),
        "status": (span.status.status_code, span.status.description),
        "attributes": _plain(attributes_of(span)),
        "events": [(event.name, event.timestamp, _plain(event.attributes)) for event in span.events],
        "links": [
            (link.context.trace_id, link.context.span_id, _plain(link.attributes)) for link in span.links
        ],
        "resource": _plain(span.resource.attributes),
        "scope": scope and (scope.name, scope.version),
    }


# JSON can't tell the two halves of a character from the character, if they stand side by side.
_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_text = st.text(st.characters(), max_size=20).filter(lambda text: not _HALVES.search(text))
_utf8_text = st.text(max_size=20)
_scalar = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.binary(max_size=20)
    | st.sampled_from(["", "\0", "\r\n", "\u2028", '"\\', "12", "NaN"])
)


def _attributes(
    text: st.SearchStrategy[str], *more: st.SearchStrategy[Any], most: int = 4
) -> st.SearchStrategy[dict[str, Any]]:
    value = st.recursive(
        st.one_of(_scalar, text, *more),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text.filter(bool), inner, max_size=3),
        max_leaves=5,
    )
    return st.dictionaries(text.filter(bool), value, max_size=most)


_trace_id, _span_id = st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1)
_time = st.integers(1, 2**63 - 1)
_trace_state = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_*/-]{0,8}", fullmatch=True),
    st.from_regex(r"[!-+\--<>-~]{1,8}", fullmatch=True),
).map(lambda entries: TraceState(list(entries.items())))
_status = st.builds(Status) | st.builds(
    Status, st.just(StatusCode.ERROR), _utf8_text.filter(bool) | st.none()
)


@st.composite
def _spans(draw: st.DrawFn, text: st.SearchStrategy[str] = _text, huge: bool = True) -> ReadableSpan:
    more = [st.integers(2**63, 10**50), st.just("\ud83d")] if huge else []
    few = _attributes(text, *more, most=2)
    trace_id = draw(_trace_id)
    link = st.builds(SpanContext, _trace_id, _span_id, st.booleans())
    return ReadableSpan(
        draw(text),
        SpanContext(
            trace_id, draw(_span_id), False, TraceFlags(draw(st.integers(0, 255))), draw(_trace_state)
        ),
        draw(st.none() | st.builds(SpanContext, st.just(trace_id), _span_id, st.booleans())),
        Resource(draw(few)),
        attributes=draw(_attributes(text, *more)),
        events=draw(st.lists(st.builds(Event, text, few, _time), max_size=2)),
        links=draw(st.lists(st.builds(Link, link, few), max_size=2)),
        kind=draw(st.sampled_from(SpanKind)),
        status=draw(_status),
        start_time=draw(_time),
        end_time=draw(_time | st.none()),
        instrumentation_scope=InstrumentationScope(draw(text), draw(text.filter(bool) | st.none())),
    )


class TestThereAndBack:
    @_FEW
    @given(_spans())
    def test_any_span_is_one_line_of_utf_8_from_which_everything_comes_back(self, span: ReadableSpan) -> None:
        line = _line(span)
        line.decode()
        assert line.index(b"\n") == len(line) - 1
        assert _told(_read(line)) == _told(span)

    @_FEW
    @given(_spans())
    def test_what_was_read_is_written_as_it_was(self, span: ReadableSpan) -> None:
        line = _line(_read(_line(span)))
        assert _line(_read(line)) == line

    def test_values_of_every_kind(self) -> None:
        values: dict[str, Any] = {
            "text": "a\r\nb\0 é 矩 \U0001f600 \u2028 \ud83d end",
            "yes": True,
            "no": False,
            "one": 1,
            "least": -(2**63),
            "most": 2**63 - 1,
            "float": 0.1,
            "whole float": 1.0,
            "minus zero": -0.0,
            "largest": 1.7976931348623157e308,
            "nan": float("nan"),
            "infinite": float("inf"),
            "-infinite": float("-inf"),
            "bytes": b"\0\xff",
            "nothing": None,
            "list": ["a", 1, True, None, [b"x", {"deep": (1.5,)}]],
            "mapping": {"a": {"b": [1, {"": "key without a name"}]}},
            "empty": {"text": "", "bytes": b"", "list": [], "mapping": {}},
        }
        assert _plain(attributes_of(_read(_line(_span(attributes=values))))) == _plain(values)

    def test_an_integer_of_more_than_64_bits_is_a_text(self) -> None:
        values: dict[str, Any] = {"a": 2**63, "b": -(2**63) - 1, "c": [10**30]}
        read = attributes_of(_read(_line(_span(attributes=values))))
        assert read == {"a": str(2**63), "b": str(-(2**63) - 1), "c": [str(10**30)]}

    def test_an_integer_of_ten_thousand_digits_too(self) -> None:
        assert attributes_of(_read(_line(_span(attributes={"a": 10**10_000}))))["a"]

    def test_values_are_nested_64_deep_and_deeper_ones_are_told_as_text(self) -> None:
        def nested(depth: int) -> Any:
            value: Any = "core"
            for _ in range(depth):
                value = [value]
            return value

        kept, told = (
            attributes_of(_read(_line(_span(attributes={"a": nested(depth)}))))["a"] for depth in (64, 66)
        )
        assert kept == nested(64)
        assert "'core'" in str(told)

    def test_types_derived_from_those_of_python_are_taken_for_them(self) -> None:
        class Text(str):
            def __str__(self) -> str:
                return "another"

        class Number(int):
            pass

        values: dict[str, Any] = {"text": Text("t"), "list": [Text("t")], "number": Number(7)}
        assert attributes_of(_read(_line(_span(attributes=values)))) == {
            "text": "t",
            "list": ["t"],
            "number": 7,
        }

    def test_a_span_that_has_begun_and_not_ended_has_no_end(self) -> None:
        span = _span(end_time=None)
        assert "endTimeUnixNano" not in _json_of(span)
        assert _read(_line(span)).end_time is None

    def test_a_span_without_a_context_is_read_too(self) -> None:
        span = ReadableSpan("bare", resource=Resource({}))
        read = _read(line_of(span, {"a": 1}))
        assert (read.name, read.context.trace_id, read.context.span_id) == ("bare", 0, 0)
        assert attributes_of(read) == {"a": 1}

    def test_attributes_may_be_other_than_the_spans_own(self) -> None:
        span = _span(attributes={"own": 1})
        assert attributes_of(_read(line_of(span, {"other": 2}))) == {"other": 2}

    def test_a_link_is_sampled_and_of_this_process_and_has_a_state_if_it_was_so(self) -> None:
        state = TraceState([("vendor", "value")])
        context = SpanContext(_TRACE_ID, _PARENT_ID, False, TraceFlags(1), state)
        [link] = _read(_line(_span(links=[Link(context)]))).links
        assert link.context == context

    def test_scope_and_resource_are_whole(self) -> None:
        if not hasattr(InstrumentationScope, "attributes"):
            pytest.skip("an SDK before 1.27")
        scope = InstrumentationScope("tests", "1.0", "https://schema.example/1", {"a": 1})
        span = ReadableSpan(
            "x", _CONTEXT, resource=Resource({}, "https://schema.example/2"), instrumentation_scope=scope
        )
        read = _read(_line(span))
        assert read.resource == span.resource
        assert read.instrumentation_scope == scope


class TestShape:
    def test_as_the_specification_has_it(self) -> None:
        state = TraceState([("vendor", "value")])
        span = _span(
            attributes={"text": "t", "int": 2**53 + 1, "float": 0.5, "not": float("nan"), "bytes": b"\xff"},
            context=SpanContext(_TRACE_ID, _SPAN_ID, False, TraceFlags(1), state),
            parent=SpanContext(_TRACE_ID, _PARENT_ID, True),
            events=[Event("an event", {"a": [1]}, 1_700_000_000_000_000_003)],
            links=[Link(SpanContext(_TRACE_ID, _PARENT_ID, False), {"b": {"c": True}})],
            kind=SpanKind.CLIENT,
            status=Status(StatusCode.ERROR, "no good"),
        )
        assert _json_of(span) == {
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": "00f067aa0ba902b7",
            "traceState": "vendor=value",
            "parentSpanId": "b7ad6b7169203331",
            "flags": 0x301,
            "name": "a span",
            "kind": 3,
            "startTimeUnixNano": "1700000000000000001",
            "endTimeUnixNano": "1700000000000000002",
            "attributes": [
                {"key": "text", "value": {"stringValue": "t"}},
                {"key": "int", "value": {"intValue": "9007199254740993"}},
                {"key": "float", "value": {"doubleValue": 0.5}},
                {"key": "not", "value": {"doubleValue": "NaN"}},
                {"key": "bytes", "value": {"bytesValue": "/w=="}},
            ],
            "events": [
                {
                    "timeUnixNano": "1700000000000000003",
                    "name": "an event",
                    "attributes": [
                        {"key": "a", "value": {"arrayValue": {"values": [{"intValue": "1"}]}}},
                    ],
                }
            ],
            "links": [
                {
                    "traceId": "0af7651916cd43dd8448eb211c80319c",
                    "spanId": "b7ad6b7169203331",
                    "attributes": [
                        {
                            "key": "b",
                            "value": {
                                "kvlistValue": {"values": [{"key": "c", "value": {"boolValue": True}}]}
                            },
                        }
                    ],
                    "flags": 0x100,
                }
            ],
            "status": {"code": 2, "message": "no good"},
        }

    def test_resource_and_scope_stand_around_the_span(self) -> None:
        document = json.loads(_line(_span(resource={"service.name": "s"})))
        [resource_spans] = document["resourceSpans"]
        attribute = {"key": "service.name", "value": {"stringValue": "s"}}
        assert resource_spans["resource"] == {"attributes": [attribute]}
        assert resource_spans["scopeSpans"][0]["scope"] == {"name": "tests", "version": "1.0"}

    @pytest.mark.parametrize(("kind", "number"), [(kind, kind.value + 1) for kind in SpanKind])
    def test_kinds_are_numbers(self, kind: SpanKind, number: int) -> None:
        assert _json_of(_span(kind=kind))["kind"] == number

    @pytest.mark.parametrize("given", ["1700000000000000001", 1_700_000_000_000_000_001])
    def test_64_bit_integers_are_read_as_numbers_too(self, given: object) -> None:
        [span] = spans_in(_document({"startTimeUnixNano": given}))
        assert span is not None
        assert span.start_time == 1_700_000_000_000_000_001

    def test_enums_are_read_by_name_too(self) -> None:
        status = {"code": "STATUS_CODE_ERROR", "message": "m"}
        [span] = spans_in(_document({"kind": "SPAN_KIND_SERVER", "status": status}))
        assert span is not None
        assert span.kind is SpanKind.SERVER
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "m")

    def test_attributes_that_were_dropped_are_counted(self) -> None:
        [span] = spans_in(_document({"droppedAttributesCount": 3}))
        assert span is not None
        assert span.dropped_attributes == 3


def _with_ids_in_base64(document: Any) -> Any:
    """Protobuf's own JSON has ids in base64, where OTLP's has them in hexadecimal."""
    if isinstance(document, list):
        return [_with_ids_in_base64(item) for item in document]
    if not isinstance(document, dict):
        return document
    return {
        key: base64.b64encode(bytes.fromhex(value)).decode()
        if key in ("traceId", "spanId", "parentSpanId")
        else _with_ids_in_base64(value)
        for key, value in document.items()
    }


class TestBesideOpenTelemetrysOwn:
    @_FEW
    @given(_spans(_utf8_text, huge=False))
    def test_protobuf_reads_a_line_as_what_the_official_encoder_makes_of_the_span(
        self, span: ReadableSpan
    ) -> None:
        json_format: Any = pytest.importorskip("google.protobuf.json_format")
        trace_pb2: Any = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2")
        encoder: Any = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
        document = _with_ids_in_base64(json.loads(_line(span)))
        [read] = json_format.Parse(json.dumps(document), trace_pb2.TracesData()).resource_spans
        [made] = encoder.encode_spans([span]).resource_spans
        ours, theirs = read.scope_spans[0].spans[0], made.scope_spans[0].spans[0]
        assert ours.flags & 0x300 == theirs.flags
        assert ours.flags & 0xFF == span.context.trace_flags
        ours.flags = theirs.flags = 0  # the official encoder leaves the W3C flags out
        ours.status.SetInParent()  # as in theirs, also where it is unset
        assert json_format.MessageToDict(read) == json_format.MessageToDict(made)

    @_FEW
    @given(_spans(_utf8_text, huge=False))
    def test_the_official_json_decoder_takes_a_line_and_has_the_same_to_tell(
        self, span: ReadableSpan
    ) -> None:
        trace: Any = pytest.importorskip("opentelemetry.proto_json.trace.v1.trace")
        encoder: Any = pytest.importorskip("opentelemetry.exporter.otlp.json.common.trace_encoder")
        ours: Any = trace.TracesData.from_json(_line(span).decode()).to_dict()
        theirs: Any = encoder.encode_spans([span]).to_dict()
        for document in (ours, theirs):
            [written] = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
            del written["flags"]
            written.setdefault("status", {})
        assert ours == theirs

    def test_what_the_official_file_exporter_writes_is_read(self, tmp_path: Path) -> None:
        module: Any = pytest.importorskip("opentelemetry.exporter.otlp.json.file.trace_exporter")
        path = tmp_path / "spans.jsonl"
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(module.FileSpanExporter(str(path))))
        made: list[ReadableSpan] = []
        tracer = provider.get_tracer("tests", "2.0")
        with tracer.start_as_current_span("outer", kind=SpanKind.SERVER) as outer:
            with tracer.start_as_current_span("inner", links=[Link(_CONTEXT, {"l": 1})]) as inner:
                inner.set_attributes(
                    {"text": "é\n", "int": 2**60, "float": 0.5, "bytes": b"\xff", "list": ["a", "b"]}
                )
                inner.add_event("an event", {"e": True}, timestamp=17)
                inner.set_status(Status(StatusCode.ERROR, "no good"))
            for span in (inner, outer):
                assert isinstance(span, ReadableSpan)
                made.append(span)
        provider.shutdown()
        read = [_read(line) for line in path.read_bytes().splitlines(keepends=True)]
        told = [_told(span) for span in made]
        for each in told:  # the official encoder leaves the W3C flags out
            context = each["context"]
            assert isinstance(context, SpanContext)
            each["context"] = SpanContext(context.trace_id, context.span_id, False, TraceFlags(0))
        assert [_told(span) for span in read] == told

    def test_of_a_batch_every_span_has_its_resource_and_its_scope(self) -> None:
        encoder: Any = pytest.importorskip("opentelemetry.exporter.otlp.json.common.trace_encoder")
        spans = [
            _span(f"{name} {number}", resource={"service.name": name})
            for name in ("a", "b")
            for number in range(3)
        ]
        read = list(spans_in(encoder.encode_spans(spans).to_dict()))
        assert [(span.name, span.resource.attributes) for span in read if span is not None] == [
            (span.name, span.resource.attributes) for span in spans
        ]


_WORDS = """
resourceSpans resource scopeSpans scope spans attributes key value values stringValue intValue doubleValue
boolValue bytesValue arrayValue kvlistValue traceId spanId parentSpanId traceState flags name version kind
startTimeUnixNano endTimeUnixNano timeUnixNano events links status code message droppedAttributesCount
kernel_trace.part.prompt kernel_trace.step
"""
_KEYS = _WORDS.split()
_junk = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(
        [
            "0" * 16,
            "0" * 32,
            "F" * 32,
            "é" * 16,
            "-1",
            "1e5",
            "9" * 400,
            "=",
            ",=,",
            "NaN",
            "AA=A",
            10**400,
            *_KEYS,
        ]
    )
)
_any_json = st.recursive(
    _junk,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(_KEYS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=25,
)


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Every container in a document with every key of it."""
    if isinstance(document, list):
        keys: list[Any] = list(range(len(document)))
    elif isinstance(document, dict):
        keys = list(document)
    else:
        return []
    return [(document, key) for key in keys] + [place for key in keys for place in _places(document[key])]


_WHOLE = json.loads(
    _line(
        _span(
            attributes={"kernel_trace.part.prompt": "p", "all": [1, 0.5, True, b"x", {"k": None}]},
            context=SpanContext(_TRACE_ID, _SPAN_ID, False, TraceFlags(1), TraceState([("a", "b")])),
            parent=SpanContext(_TRACE_ID, _PARENT_ID, True),
            events=[Event("e", {"a": 1}, 1)],
            links=[Link(_CONTEXT, {"b": 2})],
            status=Status(StatusCode.ERROR, "m"),
            resource={"r": 1},
        )
    )
)


@pytest.fixture
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    # OpenTelemetry logs every trace state that is none.
    caplog.set_level(logging.CRITICAL)


@pytest.mark.usefixtures("_quiet")
class TestAnythingMayStandInAFile:
    @settings(_FEW, max_examples=150, suppress_health_check=list(HealthCheck))
    @given(_any_json)
    @example({"resourceSpans": {"scopeSpans": 1}})
    @example(_document({"traceId": "0" * 16 + "é" * 16, "kind": [], "status": {"code": {}}}))
    @example(_document({"events": [None, 1, {"attributes": {}}], "links": ["x", {"traceId": 5}]}))
    def test_reading_it_never_raises(self, document: object) -> None:
        for span in spans_in(document):
            if span is not None:
                _read(_line(span))
                read_record(span)

    @settings(_FEW, max_examples=150, suppress_health_check=list(HealthCheck))
    @given(st.integers(0), _any_json)
    def test_nor_where_one_thing_in_a_span_is_another(self, place: int, thing: object) -> None:
        document = copy.deepcopy(_WHOLE)
        places = _places(document)
        holder, key = places[place % len(places)]
        holder[key] = thing
        for span in spans_in(document):
            if span is not None:
                _read(_line(span))
                read_record(span)

    def test_what_is_no_span_is_told_and_the_others_are_read(self) -> None:
        document = {"resourceSpans": [{"scopeSpans": [{"spans": [1, {"name": "a"}, None, {"name": "b"}]}]}]}
        assert [span and span.name for span in spans_in(document)] == [None, "a", None, "b"]

    @pytest.mark.parametrize(
        ("value", "read"),
        [
            ({"intValue": "x"}, "x"),
            ({"intValue": "7" * 30}, "7" * 30),
            ({"intValue": True}, True),
            ({"doubleValue": "x"}, "x"),
            ({"doubleValue": 3}, 3.0),
            ({"doubleValue": "-Infinity"}, float("-inf")),
            ({"bytesValue": "no base64"}, "no base64"),
            ({"boolValue": "true"}, None),
            ({"stringValue": 5}, None),
            ({"arrayValue": {}}, []),
            ({"arrayValue": []}, None),
            ({"kvlistValue": {"values": [{}, 1]}}, {"": None}),
            ({}, None),
            ("bare", None),
        ],
    )
    def test_a_value_of_the_wrong_type_is_what_can_be_told_of_it(self, value: object, read: object) -> None:
        assert _value_read(value) == read

    @pytest.mark.parametrize(
        "trace_id",
        [
            *("", "0" * 31, "0" * 33, "g" * 32, "٣" * 32, "1" * 15 + "_" * 17, 7),
            pytest.param("0x" + "1" * 30),
        ],
    )
    def test_an_id_that_is_none_is_zero(self, trace_id: object) -> None:
        [span] = spans_in(_document({"traceId": trace_id, "spanId": "1" * 16}))
        assert span is not None
        assert (span.context.trace_id, span.context.span_id) == (0, 0x1111111111111111)

    def test_values_nested_too_deep_are_left_out(self) -> None:
        value: object = {"stringValue": "core"}
        for _ in range(300):
            value = {"arrayValue": {"values": [value]}}
        assert "core" not in str(_value_read(value))

    @pytest.mark.parametrize(
        "document",
        [
            lambda n: _document({"attributes": [{"key": "a", "value": {"stringValue": "x"}}] * n}),
            lambda n: _document(
                {"attributes": [{"key": str(i), "value": {"intValue": "1"}} for i in range(n)]}
            ),
            lambda n: _document({"events": [{"name": "e", "attributes": [{"key": "a"}]}] * n}),
            lambda n: _document({"links": [{"traceId": "1" * 32}] * n}),
            lambda n: {"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}] * n},
            lambda n: {"resourceSpans": [{"scopeSpans": [{"spans": [{}] * n}]}]},
            lambda n: _document(
                {"attributes": [{"key": "a", "value": {"arrayValue": {"values": [{}] * n}}}]}
            ),
            lambda n: _document(
                {"attributes": [{"key": "a", "value": {str(i): {"arrayValue": {}} for i in range(n)}}]}
            ),
        ],
    )
    def test_work_grows_no_faster_than_the_document(self, document: Any) -> None:
        assert _calls_for(document(800)) < 5 * _calls_for(document(200))

    @pytest.mark.parametrize("value", ["intValue", "doubleValue", "bytesValue", "stringValue"])
    def test_a_number_of_a_million_digits_is_read_at_once(self, value: str) -> None:
        _value_read({value: "1" * 1_000_000})

    def test_a_trace_state_of_a_megabyte_is_looked_at_no_further_than_it_may_be_long(self) -> None:
        [span] = spans_in(_document({"traceState": ",".join(f"a{i}=b" for i in range(200_000))}))
        assert span is not None
        assert len(span.context.trace_state) <= 32


def _calls_for(document: object) -> int:
    """Calls of Python functions that it takes to read a document."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        list(spans_in(document))
    finally:
        sys.setprofile(before)
    return calls
