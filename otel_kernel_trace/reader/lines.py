"""The few facts in a line of an index that a summary needs, without parsing the rest.

A tree of 100,000 records has some 400 MB of lines, which no JSON parser reads in a second.
Lines as :mod:`otel_kernel_trace.otlp` writes them are therefore looked at as bytes: a key
with its quotation marks can't stand inside a text, where JSON escapes those. What has
another form is parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.diagnostics.model import headline
from otel_kernel_trace.indexed import Passed, spans_of
from otel_kernel_trace.measurements import speedup_in
from otel_kernel_trace.modelcalls import is_model_call
from otel_kernel_trace.reader.model import Tokens
from otel_kernel_trace.record import attributes_of, is_stage, read_record

SpanKey = tuple[bytes, bytes]
"""Trace id and span id, in hexadecimal."""

_NO_TOKENS: Final = Tokens()
_MAX_TEXTS = 20_000


class Line(NamedTuple):
    """What a summary needs of a span."""

    op_name: str
    task_id: str
    span: SpanKey
    start: int
    end: int
    """0 where it has not ended."""
    action_type: str | None
    """None for a task's root span, and for a stage."""
    step: int
    copy: int
    has_parent: bool
    is_error: bool
    passed: bool | None
    speedup: float | None
    tokens: Tokens
    signature: str = ""
    """Of the first error in its log."""
    is_stage: bool = False


_CHARS = rb'[^"\\]*(?:\\.[^"\\]*)*'
_TEXT = rb'"(' + _CHARS + rb')"'
_HEAD = (
    rb'"traceId":"([0-9a-f]{32})","spanId":"([0-9a-f]{16})"(?:,"traceState":"[^"\\]*")?'
    rb'(,"parentSpanId":"[0-9a-f]{16}")?,"flags":[0-9]+,"name":"' + _CHARS + rb'","kind":[0-9],'
    rb'"startTimeUnixNano":"([0-9]{1,20})"(?:,"endTimeUnixNano":"([0-9]{1,20})")?'
    rb'(?:,"status":\{"code":([12])(?:,"message":"' + _CHARS + rb'")?\})?,"attributes":\['
)
_LINE = re.compile(
    _HEAD + rb'(?:\{"key":"kernel_trace\.(?:'
    rb'(pending)","value":\{"boolValue":true\}\}|'
    rb'op_name","value":\{"stringValue":' + _TEXT + rb"\}\},"
    rb'\{"key":"kernel_trace\.task_id","value":\{"stringValue":' + _TEXT + rb"\}\}"
    rb'(?:,\{"key":"kernel_trace\.step","value":\{"intValue":"([0-9]{1,10})"\}\})?'
    rb'(?:,\{"key":"kernel_trace\.action_type","value":\{"stringValue":' + _TEXT + rb"\}\})?"
    rb'(?:,(\{"key":"kernel_trace\.stage)","value":\{"stringValue":"' + _CHARS + rb'"\}\})?'
    rb'(?:,\{"key":"kernel_trace\.verify\.result","value":\{"stringValue":' + _TEXT + rb"\}\})?"
    rb'(?:,\{"key":"kernel_trace\.diagnostic\.signature","value":\{"stringValue":' + _TEXT + rb"\}\})?"
    rb'(?:,\{"key":"gen_ai\.usage\.input_tokens","value":\{"intValue":"([0-9]{1,15})"\}\})?'
    rb'(?:,\{"key":"gen_ai\.usage\.output_tokens","value":\{"intValue":"([0-9]{1,15})"\}\})?'
    rb'(?:,\{"key":"kernel_trace\.copy","value":\{"intValue":"([0-9]{1,6})"\}\})?))?'
)
"""A line up to what a summary needs, as :mod:`otel_kernel_trace.index` puts it."""
_IDS = re.compile(rb'"spans":\[\{"traceId":"([0-9a-f]{32})","spanId":"([0-9a-f]{16})"')
_ERROR_LOG = re.compile(rb'\{"key":"kernel_trace\.part\.error_log\.path","value":\{"stringValue":' + _TEXT)
_DIAGNOSTIC = re.compile(
    rb'\{"key":"kernel_trace\.diagnostic\.(message|code|file|function|line|column)","value":'
    rb'\{(?:"stringValue":' + _TEXT + rb'|"intValue":"([0-9]{1,9})")\}'
)
_EVENTS = b',"events":[{"timeUnixNano":'
_STATUS = re.compile(rb'"status":\{"code":2,"message":' + _TEXT)
_STRING = re.compile(_TEXT)
_SPANS = b'"spans":[{'
_PENDING = b'"attributes":[{"key":"kernel_trace.pending"'
_NEAR = 500
"""Bytes behind the beginning of a span in which its attributes begin, where its name is not long."""
_PART = b'{"key":"kernel_trace.part.'
_STAGE = b'{"key":"kernel_trace.stage'
_OURS = (_PART, b'{"key":"kernel_trace.op_name"', b'{"key":"kernel_trace.action_type"')


_PROFILE = f'{{"key":"{attributes.VERIFY_PROFILE}","value":{{"stringValue":'.encode()


def key_of(line: bytes) -> SpanKey | None:
    """Trace id and span id of a line's first span."""
    found = _IDS.search(line)
    return (found[1], found[2]) if found else None


def error_log_in(line: bytes) -> str:
    """The path of a line's error log; empty for none."""
    found = _ERROR_LOG.search(line)
    return _text(found[1]) if found else ""


def error_in(line: bytes) -> str:
    """The first error in the log of a line's action, as its headline; empty for none."""
    told: dict[bytes, str] = {}
    end = line.find(_EVENTS)
    for found in _DIAGNOSTIC.finditer(line, 0, end if end >= 0 else len(line)):
        told.setdefault(found[1], _text(found[2]) if found[2] is not None else found[3].decode())
    if b"message" not in told:
        return ""
    code, file, function = (told.get(name) for name in (b"code", b"file", b"function"))
    numbers = [int(told[name]) for name in (b"line", b"column") if name in told]
    return headline(told[b"message"], code, file, function, *numbers)


def status_in(line: bytes) -> str:
    """The message of a line's status; empty for none."""
    found = _STATUS.search(line)
    return _text(found[1]) if found else ""


class LineReader:
    """Reads the lines of an index, of which most begin alike."""

    def __init__(self, passed: Passed) -> None:
        self._passed = passed
        self._prefix = b"\0"
        """A line up to its span."""
        self._verdicts: dict[bytes, bool] = {}
        self._texts: dict[bytes, str] = {}
        """Names that were read already: there are few of them."""

    def begun(self, line: bytes) -> SpanKey | None:
        """Which span a line is of that says that an action had begun; None for another line."""
        if not line.startswith(self._prefix):
            at = line.find(_SPANS) + len(_SPANS)
            self._prefix = line[:at] if at >= len(_SPANS) else b"\0"
        at = len(self._prefix)
        if line.find(_PENDING, at, at + _NEAR) < 0:
            return None
        return line[at + 11 : at + 43], line[at + 55 : at + 71]

    def read(self, line: bytes) -> Sequence[Line | SpanKey]:
        """What the spans of a line say that was given to :meth:`begun` before; nothing of model calls."""
        found = _LINE.match(line, len(self._prefix))
        if found is None:
            return self._parsed(line)
        (
            trace_id, span_id, parent, start, end, status,
            pending, op_name, task_id, step, action_type, stage, result, signature, asked, said, copy,
        ) = found.groups()  # fmt: skip
        if pending:
            return ((trace_id, span_id),)
        if op_name is None:
            # A model call, as a rule.
            return self._parsed(line) if any(line.find(key, found.end()) >= 0 for key in _OURS) else ()
        if action_type is None and (
            line.find(_PART, found.end()) >= 0 or (not stage and line.find(_STAGE, found.end()) >= 0)
        ):
            return self._parsed(line)  # an action by its parts alone, or a stage as others write it
        text = self._text
        passed: bool | None = None
        speedup = None
        if result is not None:
            passed = self._verdicts.get(result)
            if passed is None:
                if len(self._verdicts) > _MAX_TEXTS:
                    self._verdicts.clear()
                passed = self._verdicts[result] = attributes.has_passed(_text(result))
            at = line.find(_PROFILE, found.end()) if passed else -1
            profile = _STRING.match(line, at + len(_PROFILE)) if at >= 0 else None
            speedup = None if profile is None else speedup_in(_text(profile[1]))
        return (
            Line(
                text(op_name),
                text(task_id),
                (trace_id, span_id),
                int(start),
                int(end or 0),
                None if action_type is None else text(action_type),
                int(step or 0),
                int(copy or 1),
                parent is not None,
                status == b"2",
                passed,
                speedup,
                Tokens(int(asked or 0), int(said or 0)) if asked or said else _NO_TOKENS,
                "" if signature is None else text(signature),
                action_type is None and stage is not None,
            ),
        )

    def _text(self, raw: bytes) -> str:
        known = self._texts.get(raw)
        if known is None:
            if len(self._texts) > _MAX_TEXTS:
                self._texts.clear()
            known = self._texts[raw] = _text(raw)
        return known

    def _parsed(self, line: bytes) -> Sequence[Line | SpanKey]:
        return [found for span in spans_of(line, self._passed) if (found := _line_of(span)) is not None]


def _line_of(span: ReadableSpan) -> Line | SpanKey | None:
    """The same of a span; None for one that is no action, no task and no stage."""
    given = attributes_of(span)
    record = read_record(span)
    context = span.context
    key = (b"%032x" % context.trace_id, b"%016x" % context.span_id) if context else (b"", b"")
    if given.get(attributes.PENDING) is True:
        return key
    if record is None:
        if attributes.OP_NAME not in given or is_model_call(given):
            return None
        op_name = attributes.text(given.get(attributes.OP_NAME))
        task_id = attributes.text(given.get(attributes.TASK_ID, "unknown"))
        step, copy, action_type = 0, 1, None
    else:
        op_name, task_id, action_type = record.op_name, record.task_id, record.action_type
        step, copy = record.step or 0, record.copy
    verdict, profile = given.get(attributes.VERIFY_RESULT), given.get(attributes.VERIFY_PROFILE)
    return Line(
        op_name,
        task_id,
        key,
        span.start_time or 0,
        span.end_time or 0,
        action_type,
        step,
        copy,
        span.parent is not None,
        span.status.status_code is StatusCode.ERROR,
        None if verdict is None else attributes.has_passed(verdict),
        None if profile is None else speedup_in(attributes.text(profile)),
        tokens_in(given) or _NO_TOKENS,
        attributes.text(given.get(attributes.DIAGNOSTIC_SIGNATURE, "")),
        record is None and is_stage(given),
    )


def tokens_in(given: Mapping[str, AttributeValue]) -> Tokens | None:
    """Tokens by the names of the GenAI conventions; None where there are none."""
    numbers = [
        value if type(value := given.get(name)) is int and value > 0 else 0
        for name in (attributes.GEN_AI_INPUT_TOKENS, attributes.GEN_AI_OUTPUT_TOKENS)
    ]
    return Tokens(*numbers) if any(numbers) else None


def _text(raw: bytes) -> str:
    if b"\\" in raw:
        text = json.loads(b'"%b"' % raw)
        return text if isinstance(text, str) else ""
    return raw.decode("utf-8", "surrogatepass")
