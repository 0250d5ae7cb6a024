"""Redaction as a whole: not one byte of a secret leaves the process, by whatever way."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as trace_api
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, Status, StatusCode

from otel_kernel_trace import (
    ActionType,
    KernelTracer,
    KernelTraceSpanExporter,
    KernelTraceSpanProcessor,
    LinkedSpanExporter,
    RedactingSpanExporter,
    Redactor,
    Trace,
    TracingLogger,
    configure,
    live,
)
from otel_kernel_trace.indexed import Passed, indexed_spans
from otel_kernel_trace.store import Store
from tests.spans import action_span, provider_of
from tests.tree import tree

BODY = "Zq8Xv3Lm5Np7Rt9Wy2Bd4Fg6Hj1Kc0Sz"
"""No other text has any eight characters of it."""
SECRET = "sk-proj-" + BODY
MARK = "[redacted:openai_key]"
PROMPT = f"Write swish. The key is {SECRET}, don't tell.\n" + "More words.\n" * 50
_PIECES = [BODY[at : at + 8] for at in range(len(BODY) - 7)]


def _leaks(text: str | bytes) -> list[str]:
    content = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
    return [piece for piece in _PIECES if piece.encode() in content]


def _leaks_below(folder: Path) -> list[str]:
    """Files, with names, that have anything of the secret; deleted ones that are open count, too."""
    found = []
    for root, folders, files in os.walk(folder):
        found += [name for name in (*folders, *files) if _leaks(name)]
        found += [file for file in files if _leaks(Path(root, file).read_bytes())]
    for fd in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{fd}")
            if path.startswith(str(folder)) and os.path.isfile(f"/proc/self/fd/{fd}"):
                found += [path] if _leaks(Path(f"/proc/self/fd/{fd}").read_bytes()) else []
        except OSError:
            continue
    return found


def _told(spans: tuple[ReadableSpan, ...]) -> str:
    return "".join(
        f"{span.name} {dict(span.attributes or {})} {span.status.description} "
        f"{dict(span.resource.attributes)} "
        f"{[(event.name, dict(event.attributes or {})) for event in span.events]} "
        f"{[dict(link.attributes or {}) for link in span.links]}"
        for span in spans
    )


@contextmanager
def _provider(
    log_dir: Path, to: InMemorySpanExporter, limits: SpanLimits | None = None
) -> Iterator[TracerProvider]:
    resource = Resource({"process.command_args": ("run", "--api-key", SECRET)})
    provider = TracerProvider(resource=resource, span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(to))
    provider.add_span_processor(SimpleSpanProcessor(LinkedSpanExporter(to, 30)))
    configure(log_dir, tracer_provider=provider, redact=True)
    yield provider
    provider.shutdown()


@pytest.fixture
def sent() -> InMemorySpanExporter:
    """What another exporter of the program gets."""
    return InMemorySpanExporter()


def _everything(provider: TracerProvider) -> None:
    """A secret in every place that there is."""
    with KernelTracer(f"op {SECRET}", f"task-{SECRET}", provider) as tracer:
        with tracer.designer(prompt=PROMPT) as action:
            action.record(result=SECRET, reasoning=f"think {SECRET}", **{f"part {SECRET}": SECRET})
            action.span.add_event(f"event {SECRET}", {"note": SECRET, SECRET: 1})
            action.span.update_name(f"name {SECRET}")
        with tracer.coder(prompt=PROMPT) as action:
            action.record(result=json.dumps({"code": f"key = '{SECRET}'\n", "description": SECRET}))
        with tracer.verifier(framework="torch", impl_type="triton") as verification:
            verification.record(
                f"False {SECRET}",
                f"error: {SECRET}",
                {"key": SECRET, "speedup": 1.25},
                reference=f"# {SECRET}",
                implementation=f"# {SECRET}",
                script=f"# {SECRET}",
            )
        with tracer.conductor(prompt=PROMPT) as judgement:
            judgement.record(result=SECRET)
        with pytest.raises(RuntimeError), tracer.action(f"agent {SECRET}"):
            raise RuntimeError(f"it said {SECRET}")
        maker = provider.get_tracer("other")
        with tracer.action("agent") as action:
            messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": f"a\n{SECRET}"}]}])
            call = {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m",
                "gen_ai.input.messages": messages,
                "gen_ai.output.messages": messages.replace("user", "assistant"),
            }
            maker.start_span("chat m", attributes=call).end()
        here = trace_api.get_current_span().get_span_context()
        other = maker.start_span(
            f"other {SECRET}",
            attributes={
                "list": ["a", SECRET],
                "header.authorization": f"Bearer {BODY}",
                "db.password": BODY,
                "bytes": SECRET.encode(),
            },
            links=[Link(here, {"why": SECRET})],
        )
        other.set_status(Status(StatusCode.ERROR, f"no: {SECRET}"))
        other.end()
        by_hand = {"kernel_trace.part.prompt": PROMPT, "kernel_trace.op_name": "by hand"}
        maker.start_span("by hand", attributes=by_hand).end()


def test_not_a_byte_of_it_is_anywhere(
    tmp_path: Path, sent: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    with _provider(tmp_path, sent) as provider:
        _everything(provider)
    assert len(sent.get_finished_spans()) == 2 * 10
    assert _leaks_below(tmp_path) == []
    assert _leaks(_told(sent.get_finished_spans())) == []
    assert _leaks(caplog.text) == []
    texts = tree(tmp_path)
    assert len(texts) > 15
    assert PROMPT.replace(SECRET, MARK) in texts.values()


def test_file_raw_reply_and_index_agree(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    reply = json.dumps({"code": f"key = '{SECRET}'\n", "description": "d"})
    with _provider(tmp_path, sent) as provider, KernelTracer("swish", "1", provider) as tracer:
        with tracer.coder(prompt=PROMPT) as action:
            action.record(result=reply)
    assert tree(tmp_path)["swish/I1_S01_swish_DO_CODER_result.txt"] == f"key = '{MARK}'\n\n\n\n'''\nd\n'''"
    ended = [s for s in indexed_spans(Store(str(tmp_path)), Passed()) if s.name == "DO_CODER" and s.end_time]
    raw = (ended[-1].attributes or {})["kernel_trace.part.result"]
    assert raw == reply.replace(SECRET, MARK)
    assert (ended[-1].attributes or {})["kernel_trace.redacted"] == 2
    assert (ended[-1].attributes or {})["kernel_trace.redacted.openai_key"] == 2


def test_a_begun_action_has_it_in_no_file_and_is_counted_once(
    tmp_path: Path, sent: InMemorySpanExporter
) -> None:
    with _provider(tmp_path, sent) as provider, KernelTracer("swish", "1", provider) as tracer:
        [processor] = [
            p
            for p in provider._active_span_processor._span_processors
            if isinstance(p, KernelTraceSpanProcessor)
        ]
        with tracer.coder(prompt=PROMPT):
            assert tree(tmp_path)["swish/I1_S01_swish_DO_CODER_prompt.txt"] == PROMPT.replace(SECRET, MARK)
            assert _leaks_below(tmp_path) == []
            begun = processor.exporter.redactions.secrets
        assert processor.exporter.redactions.secrets == begun
        assert begun["openai_key"] == 1
    [span, _] = [span for span in sent.get_finished_spans() if span.name == "DO_CODER"]
    assert (span.attributes or {})["kernel_trace.redacted"] == 1


@pytest.mark.parametrize("limit", [30, 32, 35, 40, 60, 64, 70])
def test_one_that_the_sdks_limit_cuts_in_two(tmp_path: Path, sent: InMemorySpanExporter, limit: int) -> None:
    limits = SpanLimits(max_attribute_length=limit)
    with _provider(tmp_path, sent, limits) as provider:
        with KernelTracer("swish", "1", provider) as tracer, tracer.coder(prompt=PROMPT) as action:
            action.record(result="r")
        maker = provider.get_tracer("other")
        maker.start_span("other", attributes={"gen_ai.prompt": PROMPT, "kernel_trace.op_name": "x"}).end()
    assert _leaks(_told(sent.get_finished_spans())) == []
    assert _leaks_below(tmp_path) == []
    # What came through our own API is whole in its file.
    assert tree(tmp_path)["swish/I1_S01_swish_DO_CODER_prompt.txt"] == PROMPT.replace(SECRET, MARK)
    assert not any("incomplete" in name for name in tree(tmp_path))
    shown = next(span for span in sent.get_finished_spans() if span.name == "DO_CODER").attributes or {}
    assert shown["kernel_trace.part.prompt"] == PROMPT.replace(SECRET, MARK)[:limit]


def test_a_trace_writes_and_shows_nothing_of_it_and_the_program_keeps_its_own(
    tmp_path: Path,
    sent: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with provider_of(sent) as provider:
        monkeypatch.setattr(trace_api, "get_tracer_provider", lambda: provider)
        log_dir = tmp_path / "logs"
        audit = tmp_path / "audit"
        record = Trace(f"op {SECRET}", "1", log_dir, redact=True, audit_dir=audit)
        record.insert_designer_or_coder_record(SECRET, PROMPT, "clean", ActionType.DO_CODER)
        record.insert_verifier_record("False", f"error {SECRET}", json.dumps({"key": SECRET}))
        record.insert_conductor_record(SECRET, PROMPT, "", ActionType.VERIFY)
        record.close()
    assert _leaks_below(log_dir) == []
    assert _leaks(_told(sent.get_finished_spans())) == []
    assert _leaks(caplog.text) == []
    first, second = record.trace_list
    assert (first.result, first.prompt, first.reasoning) == (SECRET, PROMPT, "clean")
    assert (second.error_log, second.profile) == (f"error {SECRET}", json.dumps({"key": SECRET}))
    shown = {f"{s.context.span_id:016x}" for s in sent.get_finished_spans() if s.context}
    lines = [json.loads(line) for line in next(audit.iterdir()).read_text().splitlines()]
    assert {line["spanId"] for line in lines if line["where"].startswith("kernel_trace.part.")} <= shown


def test_of_a_process_that_is_killed(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import os, signal, sys
        from opentelemetry.sdk.trace import TracerProvider
        from otel_kernel_trace import ActionType, KernelTracer, Trace, configure
        log_dir, audit, prompt = sys.argv[1:]
        provider = configure(log_dir, tracer_provider=TracerProvider(), redact=True, audit_dir=audit)
        Trace("other", "1", log_dir, redact=True, audit_dir=audit).insert_designer_or_coder_record(
            prompt, prompt, prompt, ActionType.DO_CODER)
        tracer = KernelTracer("swish", "1", provider)
        with tracer.coder(prompt=prompt) as action:
            action.record(reasoning=prompt)
        with tracer.coder(prompt=prompt):
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    log_dir, audit = tmp_path / "logs", tmp_path / "audit"
    done = subprocess.run([sys.executable, "-c", program, str(log_dir), str(audit), PROMPT], check=False)
    assert done.returncode == -9
    assert _leaks_below(log_dir) == []
    texts = tree(log_dir)
    for name in ("I1_S01_swish_DO_CODER_reasoning.txt", "I1_S02_swish_DO_CODER_prompt.txt"):
        assert texts[f"swish/{name}"] == PROMPT.replace(SECRET, MARK)
    lines = [line for file in audit.iterdir() for line in file.read_text().splitlines()]
    assert [json.loads(line)["text"] for line in lines].count(PROMPT) == 6


def test_off_by_default_byte_for_byte(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    with provider_of(KernelTraceSpanExporter(tmp_path), sent) as provider:
        action_span(parts={"prompt": PROMPT}, tracer=provider.get_tracer("t"))
    assert PROMPT in tree(tmp_path).values()
    [span] = sent.get_finished_spans()
    assert "kernel_trace.redacted" not in (span.attributes or {})


def test_a_name_that_differs_in_the_secret_alone_is_another(tmp_path: Path) -> None:
    parts = {f"a {SECRET}": "one", f"a {SECRET}9": "two"}
    KernelTraceSpanExporter(tmp_path, redact=True).export([action_span(parts=parts)])
    assert {"one", "two"} <= set(tree(tmp_path).values())


def test_an_import_of_what_is_redacted_changes_nothing(tmp_path: Path) -> None:
    given = {"kernel_trace.redacted": 2, "kernel_trace.redacted.openai_key": 2}
    exporter = KernelTraceSpanExporter(tmp_path, redact=True)
    exporter.export([action_span(parts={"prompt": f"{MARK} {MARK}"}, more=given)])
    assert exporter.redactions.secrets == {}
    [span] = indexed_spans(Store(str(tmp_path)), Passed())
    assert (span.attributes or {})["kernel_trace.redacted"] == 2


# --- What can't be looked through is not written --------------------------------------------------


class _Broken(Redactor):
    def _is_clean(self, text: str) -> bool:
        if SECRET in text:
            raise RuntimeError(f"broken by {text}")
        return super()._is_clean(text)


def test_a_text_that_cannot_be_looked_through_is_replaced_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = KernelTraceSpanExporter(tmp_path, redact=_Broken())
    exporter.export([action_span(parts={"prompt": PROMPT})])
    assert tree(tmp_path)["swish/I1_S01_swish_DO_CODER_prompt.txt"] == "[redacted:failed]"
    assert exporter.redactions.secrets == {"failed": 1}
    assert _leaks(caplog.text) == []


class _NotAText:
    def __str__(self) -> str:
        raise ValueError(SECRET)


_ODD: dict[str, Any] = {"odd": _NotAText()}


def test_a_span_that_cannot_be_looked_through_is_counted_as_lost(
    tmp_path: Path, sent: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(sent))
    configure(tmp_path, tracer_provider=provider, redact=True)
    span = action_span(parts={"prompt": PROMPT})
    span._attributes = {**(span.attributes or {}), **_ODD}
    processor = provider._active_span_processor._span_processors[0]
    assert isinstance(processor, KernelTraceSpanProcessor)
    processor.on_end(span)
    assert _leaks_below(tmp_path) == []
    assert _leaks(_told((span,))) == []
    assert _leaks(caplog.text) == []
    wrapped = action_span(parts={"prompt": PROMPT})
    wrapped._attributes = {**(wrapped.attributes or {}), **_ODD}
    RedactingSpanExporter(sent).export([wrapped])
    assert [dict(s.attributes or {}) for s in sent.get_finished_spans()] == [{"kernel_trace.redacted": 1}]


def test_our_log_lines_have_none_either(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "swish").write_text("a file in the way")
    exporter = KernelTraceSpanExporter(tmp_path, redact=True)
    exporter.export([action_span(f"agent {SECRET}", parts={"prompt": "p"}, task_id=SECRET)])
    logger = logging.getLogger("otel_kernel_trace")
    try:
        raise RuntimeError(SECRET)
    except RuntimeError:
        logger.exception("it was %s", SECRET)
    assert len(caplog.records) == 2
    assert MARK in caplog.text
    assert _leaks(caplog.text) == []
    assert all(_leaks(repr(vars(record))) == [] for record in caplog.records)


# --- Around other exporters ------------------------------------------------------------------------


def test_around_another_exporter(sent: InMemorySpanExporter, tmp_path: Path) -> None:
    with provider_of(RedactingSpanExporter(sent), KernelTraceSpanExporter(tmp_path)) as provider:
        maker = provider.get_tracer("t")
        span = maker.start_span(f"n {SECRET}", attributes={"a": SECRET, "b": "clean"})
        span.record_exception(RuntimeError(SECRET))
        span.end()
        action_span(parts={"prompt": PROMPT}, tracer=maker)
    assert _leaks(_told(sent.get_finished_spans())) == []
    first = sent.get_finished_spans()[0]
    assert first.name == f"n {MARK}"
    assert (first.attributes or {})["b"] == "clean"
    # The span itself stays: what others write of it is theirs.
    assert PROMPT in tree(tmp_path).values()


def test_around_previews_which_still_have_their_references(
    tmp_path: Path, sent: InMemorySpanExporter
) -> None:
    exporter = RedactingSpanExporter(LinkedSpanExporter(sent, 30))
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(tmp_path)))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    action_span(parts={"prompt": PROMPT}, tracer=provider.get_tracer("t"))
    [span] = sent.get_finished_spans()
    assert _leaks(_told((span,))) == []
    assert (span.attributes or {})[
        "kernel_trace.part.prompt.path"
    ] == "swish/I1_S01_swish_DO_CODER_prompt.txt"


def test_switched_on_later_it_holds_from_then_on(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    configure(tmp_path, tracer_provider=provider)
    configure(tmp_path, tracer_provider=provider, redact=True)
    provider.add_span_processor(SimpleSpanProcessor(sent))
    action_span(parts={"prompt": PROMPT}, tracer=provider.get_tracer("t"))
    assert _leaks_below(tmp_path) == []
    assert _leaks(_told(sent.get_finished_spans())) == []


def test_nothing_of_it_stays_with_spans_that_are_gone(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    before = len(live._live)
    with _provider(tmp_path, sent) as provider, KernelTracer("swish", "1", provider) as tracer:
        with tracer.coder(prompt=PROMPT):
            pass
    sent.clear()
    del tracer
    assert len(live._live) <= before + 1


@pytest.mark.parametrize(
    "log",
    [
        f'mla.cu(10): error: identifier "sk-proj-9{BODY}" is undefined',  # numbers become # in signatures
        f"x.c:1:2: error: {'w' * 215} {SECRET}",  # … which are cut
        f"x.c:1:2: error: {'w' * 1980} {SECRET}",  # as messages are
        f"x.c:1:2: error: {'w' * 1980} https://user:{BODY}@example.com",
    ],
)
def test_what_was_made_of_a_log_has_none_either(tmp_path: Path, sent: InMemorySpanExporter, log: str) -> None:
    with (
        _provider(tmp_path, sent) as provider,
        KernelTracer("swish", "1", provider) as tracer,
        tracer.verifier() as check,
    ):
        check.record(False, log)
    assert _leaks_below(tmp_path) == []
    assert _leaks(_told(sent.get_finished_spans())) == []


def test_a_word_of_ones_own_is_not_cut_in_two_by_what_is_made_of_a_log(tmp_path: Path) -> None:
    exporter = KernelTraceSpanExporter(tmp_path, redact=Redactor(words=[BODY]))
    with (
        provider_of(exporter) as provider,
        KernelTracer("swish", "1", provider) as tracer,
        tracer.verifier() as check,
    ):
        check.record(False, f"x.c:1:2: error: {'w' * 215} {BODY}")
    assert _leaks_below(tmp_path) == []


def test_a_private_key_that_a_builder_says_line_by_line(tmp_path: Path, sent: InMemorySpanExporter) -> None:
    logger = TracingLogger()
    with (
        _provider(tmp_path, sent) as provider,
        KernelTracer("swish", "1", provider) as tracer,
        tracer.verifier(),
        tracer.stage("build"),
    ):
        for line in ("-----BEGIN PRIVATE KEY-----", BODY * 2, "-----END PRIVATE KEY-----"):
            logger.error(line)
    assert _leaks_below(tmp_path) == []
    assert _leaks(_told(sent.get_finished_spans())) == []


@pytest.mark.parametrize("option", ["--token", "--key", "--hub-token", "--passphrase"])
def test_what_follows_an_option_of_a_command(tmp_path: Path, sent: InMemorySpanExporter, option: str) -> None:
    with _provider(tmp_path, sent) as provider, KernelTracer("swish", "1", provider) as tracer:
        tracer.run(["true", option, BODY, "-c"])
    assert _leaks_below(tmp_path) == []
    assert _leaks(_told(sent.get_finished_spans())) == []


# --- The audit ---------------------------------------------------------------------------------------


def test_the_audit_has_the_texts_as_they_were(tmp_path: Path) -> None:
    log_dir, audit = tmp_path / "logs", tmp_path / "audit"
    exporter = KernelTraceSpanExporter(log_dir, redact=True, audit_dir=audit)
    span = action_span(parts={"prompt": PROMPT, "reasoning": "clean"})
    exporter.export([span])
    [file] = audit.iterdir()
    [line] = [json.loads(line) for line in file.read_text().splitlines()]
    assert span.context is not None
    assert line["where"] == "kernel_trace.part.prompt"
    assert line["text"] == PROMPT
    assert line["redacted"] == {"openai_key": 1}
    assert line["spanId"] == f"{span.context.span_id:016x}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(audit.stat().st_mode) == 0o700
    assert exporter.redactions.audited == 1
    assert _leaks_below(log_dir) == []


def test_an_audit_that_others_could_read_gets_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audit = tmp_path / "audit"
    audit.mkdir()
    audit.chmod(0o755)
    exporter = KernelTraceSpanExporter(tmp_path / "logs", redact=True, audit_dir=audit)
    exporter.export([action_span(parts={"prompt": PROMPT})])
    assert list(audit.iterdir()) == []
    assert exporter.redactions.unaudited == 1
    assert exporter.counts.written == 1
    assert "chmod 700" in caplog.text


@pytest.mark.parametrize("inside", ["logs", "logs/audit", "logs/.kernel_trace/audit", "."])
def test_the_audit_is_no_part_of_the_tree(tmp_path: Path, inside: str) -> None:
    with pytest.raises(ValueError, match="tree"):
        KernelTraceSpanExporter(tmp_path / "logs", redact=True, audit_dir=tmp_path / inside)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / inside)
    with pytest.raises(ValueError, match="tree"):
        Trace("swish", "1", tmp_path / "logs", redact=True, audit_dir=link)


def test_without_redaction_there_is_no_audit(tmp_path: Path) -> None:
    exporter = KernelTraceSpanExporter(tmp_path / "logs", audit_dir=tmp_path / "audit")
    exporter.export([action_span(parts={"prompt": PROMPT})])
    assert not (tmp_path / "audit").exists()
