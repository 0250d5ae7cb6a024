"""What is read from a span."""

from __future__ import annotations

import json

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.record import Verification, read_record
from tests.spans import action_span


def _span(**given: AttributeValue) -> ReadableSpan:
    attributes = {f"kernel_trace.{key.replace('__', '.')}": value for key, value in given.items()}
    return ReadableSpan("a name", attributes=attributes)


def test_identity_and_parts() -> None:
    record = read_record(
        action_span("VERIFY", op_name="o", task_id="t", step=4, parts={"error_log": "e", "x": ""})
    )
    assert record is not None
    assert (record.op_name, record.task_id, record.action_type, record.step) == ("o", "t", "VERIFY", 4)
    assert record.parts == {"error_log": "e", "x": ""}
    assert record.verification is None
    assert record.trace_id != 0


def test_other_spans_are_no_actions() -> None:
    assert read_record(ReadableSpan("x")) is None
    assert read_record(ReadableSpan("x", attributes={"http.method": "GET"})) is None
    assert read_record(_span(op_name="o", task_id="t")) is None  # a task's root


def test_a_part_without_an_action_type_is_recorded_under_the_spans_name() -> None:
    record = read_record(_span(op_name="o", part__result="r"))
    assert record is not None
    assert (record.action_type, record.task_id) == ("a name", "unknown")


def test_values_of_other_types_are_written_as_text() -> None:
    record = read_record(
        _span(
            op_name=7,
            task_id=True,
            action_type="x",
            part__bytes=b"caf\xc3\xa9 \xff",
            part__number=1.5,
            part__list=["a", "é"],
            part__none=None,
        )
    )
    assert record is not None
    assert (record.op_name, record.task_id) == ("7", "True")
    assert record.parts == {"bytes": "café \udcff", "number": "1.5", "list": '["a", "é"]'}


def test_structured_parts_are_written_as_json() -> None:
    nested = {"a": {"b": [1, b"x"]}}
    record = read_record(_span(action_type="x", part__map=nested))  # type: ignore[arg-type]  # since 1.45
    assert record is not None
    assert json.loads(record.parts["map"]) == {"a": {"b": [1, "x"]}}


def test_a_step_that_is_none_is_left_to_be_counted() -> None:
    for step in ("x", -1, 2**31, 1.5, True, "99999999999", "²"):
        record = read_record(_span(action_type="x", step=step))
        assert record is not None
        assert record.step is None, step
    for step in (0, 5, "5", "05", 2**31 - 1):
        record = read_record(_span(action_type="x", step=step))
        assert record is not None
        assert record.step == int(step)


def test_a_verifications_sources() -> None:
    record = read_record(
        _span(
            action_type="VERIFY",
            verify__framework="torch",
            verify__source__reference="r",
            verify__source__script="s",
        )
    )
    assert record is not None
    assert record.verification == Verification("torch", "implementation", reference="r", script="s")


def test_the_traceback_of_an_exception_is_the_error_log_unless_there_is_one() -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")
    for parts, expected in (({}, "ZeroDivisionError"), ({"error_log": "mine"}, "mine")):
        span = tracer.start_span("x", attributes=dict(action_span(parts=parts).attributes or {}))
        try:
            _ = 1 / 0
        except ZeroDivisionError as error:
            span.record_exception(error)
        assert isinstance(span, ReadableSpan)
        handled = read_record(span)
        assert handled is not None
        assert handled.parts == parts  # an exception that did not fail the action is none of its errors
        span.set_status(StatusCode.ERROR)
        span.end()
        record = read_record(span)
        assert record is not None
        assert expected in record.parts["error_log"]
