"""What a backend gets: previews of long texts, and references to the files that have the whole ones."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import pytest
from opentelemetry import trace as trace_api
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import (
    ActionType,
    KernelTracer,
    KernelTraceSpanExporter,
    KernelTraceSpanProcessor,
    LinkedSpanExporter,
    Trace,
    VerifierAction,
)
from otel_kernel_trace.linked import LinkedSpanExporterFromEnvironment
from tests.spans import action_span
from tests.tree import tree

LONG = " ".join(map(str, range(1000)))
CHARS = 20

PROMPT, REASONING, RESULT = (f"kernel_trace.part.{part}" for part in ("prompt", "reasoning", "result"))
MARKS = (".path", ".sha256", ".size", ".url")

Attributes = dict[str, AttributeValue]


@pytest.fixture
def sent() -> InMemorySpanExporter:
    """What was sent on."""
    return InMemorySpanExporter()


@contextmanager
def _provider(
    *processors: SpanProcessor, limits: SpanLimits | None = None, sampler: Sampler | None = None
) -> Iterator[TracerProvider]:
    provider = TracerProvider(shutdown_on_exit=False, span_limits=limits, sampler=sampler)
    for processor in processors:
        provider.add_span_processor(processor)
    yield provider
    provider.shutdown()


def _files(log_dir: Path, layout: str = "design") -> SpanProcessor:
    return KernelTraceSpanProcessor(KernelTraceSpanExporter(log_dir, layout=layout))


def _previews(
    to: SpanExporter, preview_chars: int | None = CHARS, link_base: str | None = None
) -> SpanProcessor:
    return SimpleSpanProcessor(LinkedSpanExporter(to, preview_chars, link_base))


def _act(provider: TracerProvider, op_name: str = "swish") -> None:
    with KernelTracer(op_name, "1", provider) as tracer, tracer.coder(prompt=LONG) as action:
        action.record(result=LONG, reasoning="short")


def _exception(span: ReadableSpan) -> Event:
    [event] = [event for event in span.events if event.name == "exception"]
    return event


def _one(exporter: InMemorySpanExporter, name: str = "DO_CODER") -> ReadableSpan:
    [span] = [span for span in exporter.get_finished_spans() if span.name == name]
    return span


def _of(exporter: InMemorySpanExporter, name: str = "DO_CODER") -> Attributes:
    return dict(_one(exporter, name).attributes or {})


def _shown(span: ReadableSpan, preview_chars: int = CHARS) -> ReadableSpan:
    """What is sent on of a span."""
    to = InMemorySpanExporter()
    LinkedSpanExporter(to, preview_chars).export([span])
    return to.get_finished_spans()[0]


def _marks(given: Attributes, name: str) -> set[str]:
    return {mark for mark in MARKS if name + mark in given}


def _referenced(given: Attributes, name: str, log_dir: Path | None = None) -> bytes:
    """The content of the file that the references are to, which has that hash and size."""
    root = Path(str(given["kernel_trace.log_dir"])) if log_dir is None else log_dir
    content = (root / str(given[f"{name}.path"])).read_bytes()
    assert given[f"{name}.sha256"] == hashlib.sha256(content).hexdigest()
    assert given[f"{name}.size"] == len(content)
    return content


# --- Previews and references --------------------------------------------------------------------


def test_a_long_part_is_a_preview_with_a_reference_and_a_short_one_stays(
    tmp_path: Path, sent: InMemorySpanExporter
) -> None:
    with _provider(_files(tmp_path), _previews(sent)) as provider:
        _act(provider)
    given = _of(sent)
    for name in (PROMPT, RESULT):
        assert given[name] == LONG[:CHARS]
        assert _referenced(given, name) == LONG.encode()
        assert _marks(given, name) == {".path", ".sha256", ".size"}
    assert given[REASONING] == "short"
    assert _marks(given, REASONING) == set()
    assert given["kernel_trace.step"] == 1


@pytest.mark.parametrize("chars", [CHARS - 1, CHARS, CHARS + 1])
def test_only_what_is_longer_than_a_preview_is_cut(chars: int) -> None:
    given = _shown(action_span(parts={"prompt": "é" * chars}), CHARS).attributes or {}
    assert given[PROMPT] == "é" * min(chars, CHARS)
    assert given.get(f"{PROMPT}.size") == (2 * chars if chars > CHARS else None)


@pytest.mark.parametrize("is_first", [True, False])
def test_every_other_exporter_gets_the_span_as_it_is(
    tmp_path: Path, sent: InMemorySpanExporter, is_first: bool
) -> None:
    whole = InMemorySpanExporter()
    others = [_previews(sent), SimpleSpanProcessor(whole)]
    with _provider(_files(tmp_path), *(others if is_first else reversed(others))) as provider:
        _act(provider)
    given = _of(whole)
    assert given[PROMPT] == given[RESULT] == LONG
    assert not any(name.endswith(MARKS) for name in given)
    assert _of(sent)[PROMPT] == LONG[:CHARS]


def test_all_else_of_a_span_is_sent_on_as_it_is(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    whole = InMemorySpanExporter()
    with _provider(_files(tmp_path), _previews(sent), SimpleSpanProcessor(whole)) as provider:
        with KernelTracer("swish", "1", provider) as tracer, tracer.coder(prompt=LONG) as action:
            action.span.add_event("compiled", {"seconds": 2})
        with tracer.conductor(prompt=LONG):
            pass
    for name in ("DO_CODER", "CHECK_CODER", "kernel_task"):
        span, copy = _one(whole, name), _one(sent, name)
        for field in ("context", "parent", "kind", "status", "start_time", "end_time", "resource", "links"):
            assert getattr(copy, field) == getattr(span, field), field
        assert copy.instrumentation_scope == span.instrumentation_scope
        assert [event.name for event in copy.events] == [event.name for event in span.events]


def test_a_preview_is_of_the_reply_and_its_file_has_the_document(
    tmp_path: Path, sent: InMemorySpanExporter
) -> None:
    reply = json.dumps({"code": LONG, "description": "counts"})
    with _provider(_files(tmp_path), _previews(sent)) as provider:
        with KernelTracer("swish", "1", provider) as tracer, tracer.coder() as action:
            action.record(result=reply)
    given = _of(sent)
    assert given[RESULT] == reply[:CHARS]
    assert _referenced(given, RESULT) == f"{LONG}\n\n\n'''\ncounts\n'''".encode()


def _verify(action: VerifierAction) -> None:
    sources = {"reference": "r" + LONG, "implementation": "i" + LONG, "script": "s" + LONG}
    action.record(False, "e" + LONG, {"runs": LONG}, **sources)


def test_a_verifiers_sources_are_referred_to(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    with _provider(_files(tmp_path), _previews(sent)) as provider:
        tracer = KernelTracer("swish", "1", provider)
        with tracer, tracer.verifier(framework="torch", impl_type="triton") as verification:
            _verify(verification)
    given = _of(sent, "VERIFY")
    for source in ("reference", "implementation", "script"):
        name = f"kernel_trace.verify.source.{source}"
        assert given[name] == (source[0] + LONG)[:CHARS]
        assert _referenced(given, name) == (source[0] + LONG).encode()
    assert _referenced(given, "kernel_trace.part.error_log") == b"e" + LONG.encode()
    assert given["kernel_trace.verify.result"] == "False"
    # The profile is in no file.
    assert _marks(given, "kernel_trace.verify.profile") == {".size"}


@pytest.mark.parametrize("link_base", ["https://files.example/kernels", "https://files.example/kernels/"])
@pytest.mark.parametrize("op_name", ["swish", "a b%2F?#&é", "算子", "../etc"])
def test_a_link_opens_the_file(
    tmp_path: Path, sent: InMemorySpanExporter, link_base: str, op_name: str
) -> None:
    with _provider(_files(tmp_path), _previews(sent, link_base=link_base)) as provider:
        _act(provider, op_name)
    given = _of(sent)
    url = str(given[f"{PROMPT}.url"])
    assert url.isascii()
    assert urlsplit(url).netloc == "files.example"
    assert urlsplit(url).query == urlsplit(url).fragment == ""
    assert unquote(urlsplit(url).path) == f"/kernels/{given[f'{PROMPT}.path']!s}"
    assert f"{REASONING}.url" not in given


@pytest.mark.parametrize("op_name", ["swish", "a b%2F?#&é"])
def test_a_link_to_a_local_file(tmp_path: Path, sent: InMemorySpanExporter, op_name: str) -> None:
    with _provider(_files(tmp_path), _previews(sent, link_base=tmp_path.as_uri())) as provider:
        _act(provider, op_name)
    url = urlsplit(str(_of(sent)[f"{PROMPT}.url"]))
    assert url.scheme == "file"
    assert Path(url2pathname(url.path)).read_text() == LONG


# --- A reference only where its file is ----------------------------------------------------------


def test_no_reference_where_nothing_is_written(sent: InMemorySpanExporter) -> None:
    with _provider(_previews(sent, link_base="file:///logs")) as provider:
        _act(provider)
    given = _of(sent)
    assert given[PROMPT] == LONG[:CHARS]
    assert given[f"{PROMPT}.size"] == len(LONG)
    assert _marks(given, PROMPT) == _marks(given, RESULT) == {".size"}


def test_no_reference_where_files_come_only_later(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    with _provider(_previews(sent), _files(tmp_path)) as provider:
        _act(provider)
    assert _marks(_of(sent), PROMPT) == {".size"}
    assert tree(tmp_path)["swish/I1_S01_swish_DO_CODER_prompt.txt"] == LONG


def test_no_reference_where_writing_failed(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    (tmp_path / "swish").touch()  # where a folder should be
    with _provider(_files(tmp_path), _previews(sent, link_base="file:///logs")) as provider:
        _act(provider)
        _act(provider, "relu")
    for op_name, marks in (("swish", {".size"}), ("relu", set(MARKS))):
        [given] = [
            dict(span.attributes or {})
            for span in sent.get_finished_spans()
            if span.name == "DO_CODER" and (span.attributes or {})["kernel_trace.op_name"] == op_name
        ]
        assert _marks(given, PROMPT) == marks


def test_references_from_the_exporter_alone(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    files = SimpleSpanProcessor(KernelTraceSpanExporter(tmp_path))
    with _provider(files, _previews(sent)) as provider:
        _act(provider)
    given = _of(sent)
    assert _referenced(given, PROMPT, tmp_path) == LONG.encode()


def test_of_two_trees_references_are_to_the_one_that_the_span_tells(
    tmp_path: Path, sent: InMemorySpanExporter
) -> None:
    files = [_files(tmp_path / "1"), _files(tmp_path / "2", layout="aikg")]
    with _provider(*files, _previews(sent)) as provider:
        _act(provider)
    assert _referenced(_of(sent), PROMPT) == LONG.encode()


def test_spans_that_a_trace_shows_have_references(
    tmp_path: Path, sent: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _provider(_files(tmp_path), _previews(sent)) as provider:
        monkeypatch.setattr(trace_api, "_TRACER_PROVIDER", provider)
        trace = Trace("swish", "1", tmp_path)
        trace.insert_designer_or_coder_record("r", LONG, "", ActionType.DO_CODER)
        trace.close()
    assert _of(sent)[PROMPT] == LONG[:CHARS]
    assert _referenced(_of(sent), PROMPT) == LONG.encode()


# --- Which spans, which texts -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("gen_ai.input.messages", {"gen_ai.operation.name": "chat"}),
        ("gen_ai.output.messages", {"gen_ai.request.model": "m"}),
        ("gen_ai.system_instructions", {"gen_ai.operation.name": "chat"}),
        ("llm.input_messages.0.message.content", {"openinference.span.kind": "LLM"}),
        ("output.value", {"openinference.span.kind": "LLM"}),
    ],
)
@pytest.mark.parametrize("value", [LONG, [{"role": "user", "parts": [{"type": "text", "content": LONG}]}]])
def test_long_messages_of_model_calls_are_cut(name: str, given: Attributes, value: AttributeValue) -> None:
    shown = dict(_shown(ReadableSpan("chat", attributes={**given, name: value})).attributes or {})
    if name.startswith("gen_ai.") and value is not LONG:
        # Still messages, for whoever shows them.
        [message] = json.loads(str(shown[name]))
        assert message == {"role": "user", "parts": [{"type": "text", "content": LONG[:CHARS]}]}
    else:
        assert len(str(shown[name])) == CHARS
    assert int(str(shown[f"{name}.size"])) >= len(LONG)
    assert {key: shown[key] for key in given} == given


def test_spans_of_others_are_sent_on_as_they_are(sent: InMemorySpanExporter) -> None:
    whole = InMemorySpanExporter()
    with _provider(_previews(sent), SimpleSpanProcessor(whole)) as provider:
        others = provider.get_tracer("http")
        others.start_span("GET", attributes={"url.full": LONG, "many": [LONG] * 2}).end()
        others.start_span("retrieve", attributes={"openinference.span.kind": "RETRIEVER", "x": LONG}).end()
    for name in ("GET", "retrieve"):
        assert _one(sent, name) is _one(whole, name)


def test_events_of_others_are_sent_on_as_they_are(sent: InMemorySpanExporter) -> None:
    with _provider(_previews(sent)) as provider:
        span = provider.get_tracer("http").start_span("GET")
        span.add_event("exception", {"exception.stacktrace": LONG})
        span.end()
    [event] = _one(sent, "GET").events
    assert event.attributes == {"exception.stacktrace": LONG}


def test_a_long_stack_trace_in_an_action_is_cut(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    whole = InMemorySpanExporter()
    with _provider(_files(tmp_path), _previews(sent), SimpleSpanProcessor(whole)) as provider:
        with pytest.raises(ValueError, match="bad"), KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder():
                raise ValueError("bad")
    event, before = _exception(_one(sent)), _exception(_one(whole))
    assert before.attributes is not None
    stack_trace = str(before.attributes["exception.stacktrace"])
    assert event.attributes == {
        **before.attributes,
        "exception.stacktrace": stack_trace[:CHARS],
        "exception.stacktrace.size": len(stack_trace.encode()),
    }
    assert (event.name, event.timestamp) == (before.name, before.timestamp)
    error_log = tree(tmp_path)["swish/I1_S01_swish_DO_CODER_error_log.txt"]
    assert error_log.startswith("Traceback")
    assert stack_trace.endswith(error_log.splitlines()[-1] + "\n")


def test_numbers_and_short_sequences_stay() -> None:
    given: Attributes = {
        "kernel_trace.part.x": [1, 2],
        "n": 10**30,
        "f": 0.1234567890123456789,
        "b": True,
        "e": (),
    }
    span = ReadableSpan("a", attributes={**given, PROMPT: LONG})
    shown = _shown(span, 8).attributes or {}
    assert {name: shown[name] for name in given} == given


def _preview_and_file(log_dir: Path, sent: InMemorySpanExporter, value: AttributeValue) -> tuple[str, str]:
    with _provider(_files(log_dir), _previews(sent)) as provider:
        provider.get_tracer("any").start_span("tuner", attributes={PROMPT: value}).end()
    given = _of(sent, "tuner")
    return str(given[PROMPT]), _referenced(given, PROMPT).decode()


def test_the_preview_of_bytes_is_their_text(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    preview, file = _preview_and_file(tmp_path, sent, LONG.encode())
    assert preview == LONG[:CHARS]
    assert file == LONG


def test_the_preview_of_a_sequence_is_the_beginning_of_its_file(
    tmp_path: Path, sent: InMemorySpanExporter
) -> None:
    preview, file = _preview_and_file(tmp_path, sent, [LONG, "second"])
    assert file == json.dumps([LONG, "second"])
    assert preview == file[:CHARS]


def test_the_preview_of_bytes_that_are_no_text_can_be_sent() -> None:
    given = _shown(ReadableSpan("a", attributes={PROMPT: b"\xff" * 50})).attributes or {}
    assert str(given[PROMPT]).encode()


def test_texts_that_no_otlp_exporter_could_encode_are_escaped() -> None:
    given = _shown(action_span(parts={"prompt": "a\ud800b", "result": "\ud800" + LONG})).attributes or {}
    assert given[PROMPT] == "a\\ud800b"
    assert given[RESULT] == "\\ud800" + LONG[: CHARS - 1]


def test_the_size_of_bytes_that_are_no_text_is_their_number() -> None:
    given = _shown(ReadableSpan("a", attributes={PROMPT: b"\xff" * 50})).attributes or {}
    assert given[f"{PROMPT}.size"] == 50


def test_a_preview_may_be_nothing(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    with _provider(_files(tmp_path), _previews(sent, 0)) as provider:
        _act(provider)
    given = _of(sent)
    for name, text in ((PROMPT, LONG), (RESULT, LONG), (REASONING, "short")):
        assert given[name] == ""
        assert _referenced(given, name) == text.encode()


def test_what_says_which_action_it_is_is_never_cut(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    with _provider(_files(tmp_path), _previews(sent, 0)) as provider:
        _act(provider)
    given = _of(sent)
    assert given["kernel_trace.op_name"] == "swish"
    assert given["kernel_trace.task_id"] == "1"
    assert given["kernel_trace.action_type"] == "DO_CODER"
    assert given["gen_ai.agent.name"] == "coder"


def test_a_text_is_cut_though_its_size_was_there_before() -> None:
    span = action_span(parts={"prompt": LONG, "prompt.size": "7"})
    assert (_shown(span).attributes or {})[PROMPT] == LONG[:CHARS]


def test_a_part_whose_name_is_that_of_a_reference_makes_no_false_one(
    tmp_path: Path, sent: InMemorySpanExporter
) -> None:
    with _provider(_files(tmp_path), _previews(sent)) as provider:
        with KernelTracer("swish", "1", provider) as tracer, tracer.coder() as action:
            action.record(**{"log": LONG, "log.path": "mine"})
    given = _of(sent)
    name = "kernel_trace.part.log"
    assert f"{name}.sha256" not in given or _referenced(given, name) == LONG.encode()


# --- Beside the SDK's own ways ------------------------------------------------------------------


def test_in_a_batch(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    batch = BatchSpanProcessor(LinkedSpanExporter(sent, CHARS), schedule_delay_millis=600_000)
    with _provider(_files(tmp_path), batch) as provider:
        for number in range(20):
            _act(provider, f"op{number}")
        assert sent.get_finished_spans() == ()
        provider.force_flush()
    spans = [span for span in sent.get_finished_spans() if span.name == "DO_CODER"]
    assert len(spans) == 20
    for span in spans:
        given = dict(span.attributes or {})
        assert given[PROMPT] == LONG[:CHARS]
        assert _referenced(given, PROMPT) == LONG.encode()


def test_what_is_not_sampled_is_not_sent(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    with _provider(_files(tmp_path), _previews(sent), sampler=ALWAYS_OFF) as provider:
        _act(provider)
    assert sent.get_finished_spans() == ()
    assert tree(tmp_path)["swish/I1_S01_swish_DO_CODER_prompt.txt"] == LONG


@pytest.mark.parametrize("limit", [CHARS + 10, CHARS - 10])
def test_what_the_sdk_cut_has_a_reference_to_the_whole(
    tmp_path: Path, sent: InMemorySpanExporter, limit: int
) -> None:
    limits = SpanLimits(max_span_attribute_length=limit)
    with _provider(_files(tmp_path), _previews(sent), limits=limits) as provider:
        _act(provider)
    given = _of(sent)
    assert given[PROMPT] == LONG[: min(limit, CHARS)]
    assert _referenced(given, PROMPT, tmp_path) == LONG.encode()


def test_the_root_of_references_is_told_whole(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    limits = SpanLimits(max_span_attribute_length=len(str(tmp_path)) - 1)
    with _provider(_files(tmp_path), _previews(sent), limits=limits) as provider:
        _act(provider)
    assert _of(sent)["kernel_trace.log_dir"] == str(tmp_path)


def test_a_copy_says_what_the_sdk_dropped(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    whole = InMemorySpanExporter()
    limits = SpanLimits(max_span_attributes=20, max_events=2)
    with _provider(_files(tmp_path), _previews(sent), SimpleSpanProcessor(whole), limits=limits) as provider:
        with KernelTracer("swish", "1", provider) as tracer, tracer.coder() as action:
            for number in range(30):
                action.span.set_attribute(f"a{number}", number)
                action.span.add_event("tick")
            action.record(result=LONG)
    dropped = [(span.dropped_attributes, span.dropped_events) for span in (_one(whole), _one(sent))]
    assert dropped[0] == dropped[1] != (0, 0)


class _Other(SpanExporter):
    """Somebody's exporter, and what it was called with."""

    def __init__(self, result: SpanExportResult | Exception) -> None:
        self._result = result
        self.calls: list[object] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.calls.append(len(spans))
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        self.calls.append(timeout_millis)
        return self._result is SpanExportResult.SUCCESS


@pytest.mark.parametrize("result", [SpanExportResult.SUCCESS, SpanExportResult.FAILURE])
def test_the_other_exporter_decides(result: SpanExportResult) -> None:
    other = _Other(result)
    linked = LinkedSpanExporter(other)
    assert linked.export([action_span(), action_span()]) is result
    assert linked.force_flush(5) is (result is SpanExportResult.SUCCESS)
    linked.shutdown()
    assert other.calls == [2, 5, "shutdown"]


def test_an_exporter_that_raises_harms_neither_the_program_nor_its_files(tmp_path: Path) -> None:
    with _provider(_files(tmp_path), _previews(_Other(OSError("no backend")))) as provider:
        _act(provider)
    assert tree(tmp_path)["swish/I1_S01_swish_DO_CODER_prompt.txt"] == LONG
    with pytest.raises(OSError, match="no backend"):  # as without us
        LinkedSpanExporter(_Other(OSError("no backend"))).export([])


def test_a_span_that_can_not_be_shortened_is_sent_on_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    class Strange(list[str]):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    span = ReadableSpan("strange", attributes={PROMPT: Strange("x")})
    assert _shown(span) is span
    assert "strange" in caplog.text


# --- Settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("preview_chars", [-1, "many", "-1", "1.5", "٣"])
def test_a_preview_of_no_number_of_characters_is_refused(preview_chars: Any) -> None:
    with pytest.raises(ValueError, match="preview_chars"):
        LinkedSpanExporter(InMemorySpanExporter(), preview_chars)


def test_arguments_of_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="preview_chars"):
        LinkedSpanExporter(InMemorySpanExporter(), True)
    with pytest.raises(TypeError, match="link_base"):
        LinkedSpanExporter(InMemorySpanExporter(), link_base=7)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("link_base", ["", "/logs", "files.example/logs"])
def test_a_link_base_that_is_no_url_is_refused(link_base: str) -> None:
    with pytest.raises(ValueError, match="link_base"):
        LinkedSpanExporter(InMemorySpanExporter(), link_base=link_base)


def test_settings_of_the_environment(
    tmp_path: Path, sent: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_KERNEL_TRACE_PREVIEW_CHARS", " 7 ")
    monkeypatch.setenv("OTEL_EXPORTER_KERNEL_TRACE_LINK_BASE", "https://files.example")
    with _provider(_files(tmp_path), _previews(sent, None)) as provider:
        _act(provider)
    given = _of(sent)
    assert given[PROMPT] == LONG[:7]
    assert given[f"{PROMPT}.url"] == f"https://files.example/{given[f'{PROMPT}.path']!s}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [("PREVIEW_CHARS", "a thousand"), ("PREVIEW_CHARS", "-5"), ("LINK_BASE", "somewhere")],
)
def test_a_bad_value_of_the_environment_is_told_once_and_the_default_used(
    sent: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variable: str,
    value: str,
) -> None:
    name = f"OTEL_EXPORTER_KERNEL_TRACE_{variable}"
    monkeypatch.setenv(name, value)
    with _provider(_previews(sent, None), _previews(_Other(SpanExportResult.SUCCESS), None)) as provider:
        _act(provider)
    assert len([record for record in caplog.records if name in record.getMessage()]) == 1
    assert _of(sent)[PROMPT] == LONG[:1024]


# --- From the environment alone ------------------------------------------------------------------

_PIPELINE = f"""
from otel_kernel_trace import KernelTracer

with KernelTracer("swish", "7") as tracer, tracer.coder(prompt={LONG!r}) as action:
    action.record(result="r")
print("done")
"""


def _instrumented(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program that knows nothing of exporters, under ``opentelemetry-instrument``."""
    pytest.importorskip("opentelemetry.distro", reason="opentelemetry-distro is not installed")
    (folder / "pipeline.py").write_text(_PIPELINE)
    done = subprocess.run(
        ["opentelemetry-instrument", "python", "pipeline.py"],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_TRACES_EXPORTER": "kernel_trace_linked",
            "OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR": str(folder / "logs"),
            **{f"OTEL_EXPORTER_KERNEL_TRACE_{name}": value for name, value in environment.items()},
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout
    assert "Traceback" not in done.stderr
    assert tree(folder / "logs")["swish/I7_S01_swish_DO_CODER_prompt.txt"] == LONG
    return done


def _printed(done: subprocess.CompletedProcess[str]) -> Attributes:
    """Attributes of the action's span as the console exporter printed it."""
    text = done.stdout[done.stdout.index("{") :]
    while text:
        span, end = json.JSONDecoder().raw_decode(text)
        if span["name"] == "DO_CODER":
            return dict(span["attributes"])
        text = text[end:].lstrip()
    raise AssertionError(f"no span of an action in {done.stdout}")


class TestEnvironment:
    def test_previews_and_references_at_the_console(self, tmp_path: Path) -> None:
        done = _instrumented(
            tmp_path, LINKED="console", PREVIEW_CHARS=str(CHARS), LINK_BASE="https://files.example/"
        )
        given = _printed(done)
        assert given[PROMPT] == LONG[:CHARS]
        assert _referenced(given, PROMPT) == LONG.encode()
        assert given[f"{PROMPT}.url"] == f"https://files.example/{given[f'{PROMPT}.path']!s}"

    def test_bad_values_are_a_line_each_and_the_defaults_are_used(self, tmp_path: Path) -> None:
        done = _instrumented(tmp_path, LINKED="console", PREVIEW_CHARS="lots", LINK_BASE="here")
        for name in ("PREVIEW_CHARS", "LINK_BASE"):
            assert len([line for line in done.stderr.splitlines() if name in line]) == 1
        given = _printed(done)
        assert given[PROMPT] == LONG[:1024]
        assert _marks(given, PROMPT) == {".path", ".sha256", ".size"}

    @pytest.mark.parametrize("name", ["no_such_exporter", "otlp,console"])
    def test_an_exporter_that_is_not_there_is_a_line_and_costs_nobody_anything(
        self, tmp_path: Path, name: str
    ) -> None:
        done = _instrumented(tmp_path, LINKED=name)
        assert len([line for line in done.stderr.splitlines() if "no spans are sent" in line]) == 1
        assert name in done.stderr

    def test_arguments_of_a_configuration_file_come_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_KERNEL_TRACE_LINKED", "no_such_exporter")
        monkeypatch.setenv("OTEL_EXPORTER_KERNEL_TRACE_PREVIEW_CHARS", "1000")
        exporter = LinkedSpanExporterFromEnvironment(exporter="console", preview_chars=3)
        assert isinstance(exporter._exporter, ConsoleSpanExporter)
        assert exporter._preview_chars == 3

    def test_an_exporter_around_itself_is_told(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_KERNEL_TRACE_LINKED", "kernel_trace_linked")
        exporter = LinkedSpanExporterFromEnvironment()
        assert exporter.export([action_span()]) is SpanExportResult.FAILURE
        assert len(caplog.records) == 1
        assert "RecursionError" not in caplog.text


def test_what_a_command_wrote_is_cut_and_its_tree_has_it_whole(
    tmp_path: Path, sent: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(tmp_path)))
    provider.add_span_processor(SimpleSpanProcessor(LinkedSpanExporter(sent, CHARS)))
    with KernelTracer("o", "1", provider, level="debug") as tracer:
        tracer.run(["sh", "-c", "yes | head -c 3000; yes | head -c 3000 >&2"])
    span = sent.get_finished_spans()[0]
    assert span.attributes is not None
    for name in ("kernel_trace.stage.stdout", "kernel_trace.stage.stderr"):
        assert span.attributes[name] == "y\n" * (CHARS // 2)
        assert span.attributes[f"{name}.size"] == 3000
    assert not caplog.messages
