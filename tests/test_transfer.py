"""From a tree to OTLP JSON lines, and from any OTLP JSON to a tree: nothing is lost, and no file can harm."""

from __future__ import annotations

import gc
import io
import itertools
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_kernel_trace import (
    ActionType,
    KernelTracer,
    KernelTraceSpanExporter,
    KernelTraceSpanProcessor,
    LinkedSpanExporter,
    Trace,
    live,
)
from otel_kernel_trace.indexed import Passed, layout_in
from otel_kernel_trace.otlp import line_of, spans_in
from otel_kernel_trace.record import attributes_of
from otel_kernel_trace.settings import OnExisting
from otel_kernel_trace.store import NewFile, Store
from otel_kernel_trace.transfer import Imported, export_jsonl, import_file, merge
from tests.faults import forked
from tests.spans import action_span
from tests.tree import raw_tree, tree

LAYOUTS = ["design", "aikg", "akg_agents"]

_REPLY = json.dumps({"code": "import triton\n", "description": "tiles é"})
_DOCUMENT = "import triton\n\n\n\n'''\ntiles é\n'''"


def _provider(log_dir: Path, layout: str | None = None) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(log_dir, layout=layout)))
    return provider


def _exported(log_dir: Path, passed: Passed | None = None) -> bytes:
    """A tree's lines; without ``passed`` there is nothing to be told."""
    if live._live:  # as in another process, which knows nothing of the spans that there were
        gc.collect()
    out = io.BytesIO()
    done = export_jsonl(str(log_dir), out)
    assert done.passed == (passed or Passed())
    assert done.spans == out.getvalue().count(b"\n")
    return out.getvalue()


def _imported(lines: bytes, log_dir: Path, texts: Path | None = None) -> Imported:
    exporter = KernelTraceSpanExporter(log_dir, layout=layout_in(io.BytesIO(lines)))
    return import_file(io.BytesIO(lines), exporter, texts=None if texts is None else str(texts))


def _told(lines: bytes) -> list[tuple[Any, ...]]:
    """What lines tell, in no order."""
    spans = [span for line in lines.splitlines() for span in spans_in(json.loads(line)) if span is not None]
    return sorted(
        (
            span.context,
            span.name,
            span.start_time,
            span.end_time or 0,
            sorted(map(repr, attributes_of(span).items())),
        )
        for span in spans
    )


def _is_copied_whole(log_dir: Path, copy: Path) -> None:
    lines = _exported(log_dir)
    done = _imported(lines, copy)
    assert (done.known, done.foreign, done.failed, done.passed) == (0, 0, 0, Passed())
    assert raw_tree(copy) == raw_tree(log_dir)
    assert _told(_exported(copy)) == _told(lines)


def _shuffled(lines: bytes, order: Sequence[int]) -> bytes:
    whole = lines.splitlines(keepends=True)
    return b"".join(whole[index] for index in order)


# --- There and back -----------------------------------------------------------------------------

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "",
        "\0",
        "a\r\nb\rc\n",
        "lone \ud83d and \udc80",
        _REPLY,
        f"It is ```json\n{_REPLY}\n``` indeed.",
        json.dumps({"code": _REPLY, "description": "a reply in a reply"}),
        json.dumps({"code": "\udfff", "description": ""}),
        "{" * 50 + '"code": "',
        _DOCUMENT,
        "x" * 20_000,
        json.dumps({"code": "é" * 20_000, "description": "d"}),
    ]
)
_name = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "swish",
        "a/b",
        "..",
        ".",
        "",
        "~",
        "%41",
        ".kernel_trace",
        "a\0b",
        "\ud800",
        "NUL",
        "x" * 300,
        "1_S02_x",
        "I1_S01",
    ]
)
_part = _name.filter(lambda name: name not in ("self", "prompt", "result", "reasoning", "error_log"))
_parts = st.dictionaries(_part, _text, max_size=2)
_source = st.none() | _text
_DESIGNERS = [ActionType.DO_DESIGNER, ActionType.FIX_DESIGNER]
_CODERS = [ActionType.DO_CODER, ActionType.FIX_CODER, ActionType.DO_CODER_DIRECT]
_JUDGED = [*_DESIGNERS, *_CODERS, ActionType.VERIFY]

_Call = tuple[str, tuple[Any, ...]]
"""Name of a method of :class:`_Program`, and its arguments."""


class _Program:
    """Does what a program may do in one task, by a ``Trace`` or by a ``KernelTracer``."""

    def __init__(self, trace: Trace, tracer: KernelTracer, provider: TracerProvider) -> None:
        self._trace = trace
        self._tracer = tracer
        self._spans = provider.get_tracer("by hand")

    def record(self, action: ActionType, result: str, prompt: str, reasoning: str) -> None:
        self._trace.insert_designer_or_coder_record(result, prompt, reasoning, action)

    def record_verification(self, verdict: str, log: str, sources: Mapping[str, str | None]) -> None:
        self._trace.insert_verifier_record(verdict, log, '{"speedup": 2}', ActionType.VERIFY, **sources)

    def record_judgement(self, action: ActionType, result: str, prompt: str, reasoning: str) -> None:
        self._trace.insert_conductor_record(result, prompt, reasoning, action)

    def act(
        self, action: ActionType, prompt: str | None, result: str, parts: Mapping[str, str], fails: bool
    ) -> None:
        by = self._tracer.designer if action in _DESIGNERS else self._tracer.coder
        with suppress(ZeroDivisionError), by(prompt=prompt, action_type=action) as started:
            started.record(result, **parts)
            if fails:
                raise ZeroDivisionError

    def act_as(self, name: str, prompt: str | None, parts: Mapping[str, str]) -> None:
        with self._tracer.action(name, prompt=prompt) as started:
            started.record(**parts)

    def verify(
        self, verdict: bool, log: str | None, sources: Mapping[str, str | None], parts: Mapping[str, str]
    ) -> None:
        written_in = {name: sources.get(name) for name in ("framework", "impl_type")}
        with self._tracer.verifier(**written_in) as started:
            rest = {name: source for name, source in sources.items() if name not in written_in}
            started.record(verdict, log, **rest, **parts)

    def judge(self, prompt: str | None, result: str | None, reasoning: str | None) -> None:
        with suppress(ValueError), self._tracer.conductor(prompt=prompt) as started:
            started.record(result, reasoning)

    def ask(self, answer: str) -> None:
        with self._tracer.coder() as started:
            self._chat(answer)
            started.record(error_log=None)

    def make_by_hand(self, action: str | None, step: int | None, values: Mapping[str, Any]) -> None:
        given: dict[str, Any] = {f"kernel_trace.part.{part}": value for part, value in values.items()}
        given |= {"kernel_trace.op_name": "by hand", "mine": [1, None, {"deep": b"\xff"}]}
        if action is not None:
            given["kernel_trace.action_type"] = action
        if step is not None:
            given["kernel_trace.step"] = step
        with self._spans.start_as_current_span("by hand", attributes=given) as span:
            span.add_event("an event", {"text": "\0"})

    def _chat(self, answer: str) -> None:
        messages = [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
        call = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(messages)}
        with self._spans.start_as_current_span("chat", attributes=call):
            pass


def _calls() -> st.SearchStrategy[_Call]:
    sources = st.fixed_dictionaries(
        dict.fromkeys(("reference", "implementation", "script", "framework", "impl_type"), _source)
    )
    agents = st.sampled_from([*_DESIGNERS, *_CODERS])
    value = _text | st.none() | st.integers(-(2**70), 2**70) | st.floats() | st.binary(max_size=5)
    values = st.dictionaries(_name, value | st.lists(value, max_size=2), max_size=2)
    by_hand = _name | st.sampled_from([None, *(action.name for action in ActionType)])
    methods: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
        "record": st.tuples(agents, _text, _text, _text),
        "record_verification": st.tuples(st.sampled_from(["True", "False"]), _text, sources),
        "record_judgement": st.tuples(st.sampled_from(_JUDGED), _text, _text, _text),
        "act": st.tuples(agents, st.none() | _text, _text, _parts, st.booleans()),
        "act_as": st.tuples(_name, st.none() | _text, _parts),
        "verify": st.tuples(st.booleans(), st.none() | _text, sources, _parts),
        "judge": st.tuples(st.none() | _text, st.none() | _text, st.none() | _text),
        "ask": st.tuples(_text),
        "make_by_hand": st.tuples(by_hand, st.none() | st.integers(0, 12), values),
    }
    return st.one_of(*(st.tuples(st.just(name), arguments) for name, arguments in methods.items()))


_tasks = st.lists(st.tuples(_name, st.sampled_from(["1", "1", "2", "a/b", ""])), min_size=1, max_size=3)


def _perform(
    log_dir: Path,
    layout: str,
    tasks: Sequence[tuple[str, str]],
    calls: Iterable[tuple[int, _Call]],
    between: Callable[[], object] = lambda: None,
) -> None:
    """Make calls in runs of the tasks; a task that is there twice is run twice, interleaved."""
    provider = _provider(log_dir, layout)
    tracers = [KernelTracer(*task, provider) for task in tasks]
    programs = [
        _Program(Trace(*task, log_dir, layout=layout), tracer, provider)
        for task, tracer in zip(tasks, tracers, strict=True)
    ]
    for number, (method, arguments) in calls:
        getattr(programs[number % len(programs)], method)(*arguments)
        between()
    for tracer in tracers:
        tracer.close()


def _work_in_threads(log_dir: Path) -> None:
    trace = Trace("swish", "1", log_dir)
    with KernelTracer("swish", "1", _provider(log_dir)) as tracer:

        def work(thread: int) -> None:
            for number in range(8):
                text = f"{thread}.{number}"
                if thread % 2:
                    trace.insert_designer_or_coder_record(text, text, "", ActionType.DO_CODER)
                    continue
                with tracer.coder(prompt=text) as code, tracer.action("helper") as helper:
                    helper.record(notes=text)
                with tracer.conductor(judges=code) as conductor:
                    conductor.record(text)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))


class TestThereAndBack:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_tasks, st.lists(st.tuples(st.integers(0, 2), _calls()), max_size=10))
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_a_tree_is_the_same_byte_for_byte(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        layout: str,
        tasks: list[tuple[str, str]],
        calls: list[tuple[int, _Call]],
    ) -> None:
        around = tmp_path_factory.mktemp("trees")
        _perform(around / "tree", layout, tasks, calls)
        if (around / "tree").exists():
            _is_copied_whole(around / "tree", around / "copy")
        shutil.rmtree(around)

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_tasks, st.lists(st.tuples(st.integers(0, 2), _calls()), max_size=10))
    def test_so_it_is_when_it_was_imported_again_and_again_as_it_grew(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        tasks: list[tuple[str, str]],
        calls: list[tuple[int, _Call]],
    ) -> None:
        around = tmp_path_factory.mktemp("trees")

        def import_again() -> None:
            _imported(_exported(around / "tree"), around / "copy")

        _perform(around / "tree", "design", tasks, calls, import_again)
        assert raw_tree(around / "copy") == raw_tree(around / "tree")
        shutil.rmtree(around)

    @pytest.mark.parametrize(
        "layout",
        [
            "aikg",
            pytest.param(
                "akg_agents",
            ),
        ],
    )
    def test_so_it_is_by_way_of_another_layout(self, tmp_path: Path, layout: str) -> None:
        _run(tmp_path / "tree", "a")
        trace = Trace("swish", "2", tmp_path / "tree")
        trace.insert_designer_or_coder_record(_REPLY, "p", "r", ActionType.DO_CODER)
        for source, target, named in (("tree", "other", layout), ("other", "back", "design")):
            lines = io.BytesIO(_exported(tmp_path / source))
            import_file(lines, KernelTraceSpanExporter(tmp_path / target, layout=named))
        assert raw_tree(tmp_path / "back") == raw_tree(tmp_path / "tree")

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_with_every_action_and_several_judgements_in_two_runs(self, tmp_path: Path, layout: str) -> None:
        for _ in range(2):
            trace = Trace("swish", "1", tmp_path / "tree", layout=layout)
            for action in (*_DESIGNERS, *_CODERS):
                trace.insert_designer_or_coder_record(_REPLY, "p\r\n", "r", action)
                for verdict in ("no", "", "yes"):
                    trace.insert_conductor_record(verdict, "p", "", action)
            trace.insert_verifier_record("True", "", '{"speedup": 2}')
            trace.insert_verifier_record(
                "False",
                "log",
                "",
                framework="torch",
                impl_type="torch",
                reference="a",
                implementation="b",
                script="c",
            )
            trace.insert_conductor_record("why", "", "", ActionType.VERIFY)
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")

    def test_of_threads_that_work_at_one_task(self, tmp_path: Path) -> None:
        _work_in_threads(tmp_path / "tree")
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_what_had_begun_when_the_process_was_killed_keeps_its_prompt(
        self, tmp_path: Path, layout: str
    ) -> None:
        provider = _provider(tmp_path / "tree", layout)
        with forked() as child:
            if child.is_child:
                tracer = KernelTracer("swish", "1", provider)
                with tracer.coder(prompt="whole") as code:
                    code.record("r")
                with tracer.designer(prompt="sketch \ud83d"), tracer.conductor(prompt="?", judges=code):
                    with tracer.action("tuner", prompt="tune"), tracer.verifier(framework="torch") as check:
                        check.record(False, "not yet on disk", reference="nor is this")
                        child.ends(True)
        prompts = sorted(content for path, content in tree(tmp_path / "tree").items() if "prompt" in path)
        assert prompts == ["?", "sketch \\ud83d", "tune", "whole"]
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")
        ended = [given for given in map(str, _told(_exported(tmp_path / "copy"))) if "pending" not in given]
        assert len(ended) == 1

    def test_what_another_process_writes_meanwhile_is_no_record_without_an_index(
        self, tmp_path: Path
    ) -> None:
        KernelTraceSpanExporter(tmp_path).export([action_span("a", parts={"x": "1"})])

        def go_on() -> None:
            KernelTraceSpanExporter(tmp_path).export([action_span("a", parts={"x": "2"})])
            time.sleep(1.1)  # as in a large tree

        out = io.BytesIO()
        export_jsonl(str(tmp_path), out, go_on)
        assert out.getvalue().count(b"\n") == 1

    def test_a_line_that_is_being_written_is_waited_for(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path / "tree")
        trace.insert_verifier_record("False", "1", "")
        [shard] = (tmp_path / "tree/.kernel_trace/index").iterdir()
        before = shard.read_bytes()
        trace.insert_verifier_record("False", "2", "")
        whole = shard.read_bytes()
        shard.write_bytes(whole[: len(before) + 30])
        written = threading.Timer(0.3, shard.write_bytes, [whole])
        written.start()
        _imported(_exported(tmp_path / "tree", Passed(torn=1)), tmp_path / "copy")
        written.join()
        done = _imported(_exported(tmp_path / "tree"), tmp_path / "copy")
        assert (done.known, done.actions) == (1, 1)
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    @pytest.mark.parametrize(
        ("framework", "impl_type"), [("torch", "numpy"), ("numpy", "torch"), ("a b", None)]
    )
    def test_killed_there_a_verification_keeps_what_is_what(
        self, tmp_path: Path, framework: str, impl_type: str | None
    ) -> None:
        with KernelTracer("swish", "1", _provider(tmp_path / "tree")) as tracer:
            with tracer.verifier(framework=framework, impl_type=impl_type) as check:
                check.record(False, "log", reference="ref", implementation="impl", script="compare")
            del check
        [shard] = (tmp_path / "tree/.kernel_trace/index").iterdir()
        lines = shard.read_bytes().splitlines(keepends=True)
        shard.write_bytes(b"".join(line for line in lines if b'"endTimeUnixNano"' not in line))
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")

    @pytest.mark.parametrize("mode", ["overwrite", "fail"])
    def test_of_runs_with_other_actions_at_a_step_both_stay_there(
        self, tmp_path: Path, mode: OnExisting
    ) -> None:
        for run in (["DO_DESIGNER", "DO_CODER"], ["DO_CODER", "FIX_CODER"]):
            exporter = KernelTraceSpanExporter(tmp_path / "tree", on_existing=mode)
            for step, action in enumerate(run, 1):
                exporter.export([action_span(action, step=step, parts={"prompt": f"{run} {step}"})])
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_killed_between_files_and_line_an_action_has_its_files(self, tmp_path: Path, layout: str) -> None:
        with KernelTracer("swish", "1", _provider(tmp_path / "tree", layout)) as tracer:
            with tracer.coder(prompt="asked") as code:
                code.record(_REPLY, "thought", my_notes="noted")
            with tracer.action("auto tuner", prompt="tune") as action:
                action.record(best_block="128")
            with tracer.conductor(prompt="good?", judges=code) as verdict:
                verdict.record(result="no")
            with tracer.conductor(prompt="and now?", judges=code) as verdict:
                verdict.record(result="yes")
            with tracer.verifier(framework="torch", impl_type="triton") as check:
                check.record(False, "log", reference="ref", implementation="impl", script="compare")
            del code, action, verdict, check
        [shard] = (tmp_path / "tree/.kernel_trace/index").iterdir()
        lines = shard.read_bytes().splitlines(keepends=True)
        shard.write_bytes(b"".join(line for line in lines if b'"endTimeUnixNano"' not in line))
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")
        assert len(_told(_exported(tmp_path / "copy"))) == 5  # and each of them pending

    def test_of_runs_that_overwrite_each_other_the_last_is_told(self, tmp_path: Path) -> None:
        for run in range(3):
            exporter = KernelTraceSpanExporter(tmp_path / "tree", on_existing="overwrite")
            for step in range(1, 4 - run):
                span = action_span(step=step, parts={"prompt": f"asked in run {run}", "result": str(run)})
                exporter.export([span])
        _imported(_exported(tmp_path / "tree", Passed(replaced=3)), tmp_path / "copy")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    def test_an_empty_tree_is_no_line(self, tmp_path: Path) -> None:
        assert _exported(tmp_path) == b""
        assert _exported(tmp_path / "none") == b""
        assert not (tmp_path / "none").exists()


class TestNamesAndTextsThatAreNotThereAndBack:
    """What the property above found, and leaves out."""

    def _one(self, tmp_path: Path, parts: Mapping[str, str]) -> None:
        with KernelTracer("swish", "1", _provider(tmp_path / "tree")) as tracer:
            with tracer.action("a") as action:
                action.record(**parts)
            del action
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")

    @pytest.mark.parametrize(
        "parts",
        [
            {"x": "1", "x.path": "2", "x.size": "3", "x.sha256": "4", "x.url": "5"},
            {"x.sha256": "only this"},
            {"x.path": "", "x": "1"},
        ],
        ids=str,
    )
    def test_parts_that_are_called_like_what_says_where_a_part_is(
        self, tmp_path: Path, parts: Mapping[str, str]
    ) -> None:
        self._one(tmp_path, parts)

    def test_an_empty_one_called_like_an_offset(self, tmp_path: Path) -> None:
        self._one(tmp_path, {"x": "1", "x.offset": ""})

    def test_one_called_like_what_was_given(self, tmp_path: Path) -> None:
        self._one(tmp_path, {"x.given": "1"})

    def test_a_text_with_the_two_halves_of_a_character(self, tmp_path: Path) -> None:
        self._one(tmp_path, {"x": "as streams cut it: \ud83d" + "\ude00"})

    @pytest.mark.xfail(strict=True, reason="escaped, the reply is another: one that is JSON")
    def test_a_reply_with_half_a_character_behind_a_backslash(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path / "tree")
        trace.insert_designer_or_coder_record(
            '{"code": "\\\ud83d", "description": ""}', "", "", ActionType.DO_CODER
        )
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")

    @pytest.mark.xfail(strict=True, reason="a part x.offset that is a number is taken for where x begins")
    def test_a_number_called_like_an_offset(self, tmp_path: Path) -> None:
        given: dict[str, Any] = {"kernel_trace.part.x": "0123456789", "kernel_trace.part.x.offset": 3}
        provider = _provider(tmp_path / "tree")
        provider.get_tracer("t").start_span("a", attributes=given).end()
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")

    @pytest.mark.xfail(
        strict=True, reason="JSON makes one character of its two halves, the name has two escapes"
    )
    def test_a_name_with_the_two_halves_of_a_character(self, tmp_path: Path) -> None:
        self._one(tmp_path, {"x" + "\ud83d" + "\ude00": "1"})

    def test_judgements_inside_one_another(self, tmp_path: Path) -> None:
        with KernelTracer("swish", "1", _provider(tmp_path / "tree")) as tracer:
            with tracer.coder() as code:
                code.record("r")
            with tracer.conductor(prompt="1") as outer:
                with tracer.conductor(judges=code) as inner:
                    inner.record("2")
                with tracer.conductor(prompt="3", judges=code):
                    pass
                outer.record("in the way of 2")
            del code, outer, inner
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")

    def test_a_model_call_inside_a_verifier(self, tmp_path: Path) -> None:
        provider = _provider(tmp_path / "tree")
        with KernelTracer("swish", "1", provider) as tracer:
            with tracer.verifier() as check:
                with provider.get_tracer("t").start_as_current_span("chat", attributes=_chat("looks right")):
                    pass
                check.record(True)
            del check
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")

    def test_a_model_call_whose_action_an_exporter_wrote_without_it(self, tmp_path: Path) -> None:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(KernelTraceSpanExporter(tmp_path / "tree")))
        with KernelTracer("swish", "1", provider) as tracer:
            with tracer.action("tuner") as action:
                with provider.get_tracer("t").start_as_current_span("chat", attributes=_chat("block 128")):
                    pass
                action.record(notes="n")
            del action
        _is_copied_whole(tmp_path / "tree", tmp_path / "copy")


# --- What became of the files since --------------------------------------------------------------


class TestCurrentContent:
    @pytest.fixture
    def log_dir(self, tmp_path: Path) -> Path:
        trace = Trace("swish", "1", tmp_path / "tree")
        trace.insert_designer_or_coder_record(_REPLY, "p", "r", ActionType.DO_CODER)
        trace.insert_verifier_record("False", "log", "", framework="torch", reference="a", script="b")
        trace.insert_conductor_record("why", "", "", ActionType.VERIFY)
        return tmp_path / "tree"

    @pytest.mark.parametrize(
        "path",
        [
            "I1_S01_swish_DO_CODER_prompt.txt",
            "I1_S01_swish_DO_CODER_result.txt",
            "I1_S02_swish_VERIFY_error_log.txt",
            "I1_S02_verify/verify_swish.py",
            "conductor/I1_S02_swish_AnalyzeError_result.txt",
        ],
    )
    @pytest.mark.parametrize("text", ["edited\r\n", "", _DOCUMENT + "\n"])
    def test_an_edited_file_is_told_and_counts(
        self, log_dir: Path, tmp_path: Path, path: str, text: str
    ) -> None:
        (log_dir / "swish" / path).write_bytes(text.encode())
        _imported(_exported(log_dir, Passed(changed=1)), tmp_path / "copy")
        expected = raw_tree(log_dir)
        if not text and ("error_log" in path or "conductor" in path):
            del expected[f"swish/{path}"]  # where an empty text makes no file
        assert raw_tree(tmp_path / "copy") == expected
        _exported(tmp_path / "copy")

    def test_a_result_that_somebody_made_a_reply_of_stays_one(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path / "tree")
        trace.insert_designer_or_coder_record("no JSON", "p", "r", ActionType.DO_CODER)
        (tmp_path / "tree/swish/I1_S01_swish_DO_CODER_result.txt").write_text(_REPLY)
        _imported(_exported(tmp_path / "tree", Passed(changed=1)), tmp_path / "copy")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    def test_so_does_one_that_somebody_made_its_own_reply_of(self, log_dir: Path, tmp_path: Path) -> None:
        (log_dir / "swish/I1_S01_swish_DO_CODER_result.txt").write_text(_REPLY)
        _imported(_exported(log_dir, Passed(changed=1)), tmp_path / "copy")
        assert raw_tree(tmp_path / "copy") == raw_tree(log_dir)

    def test_an_edited_file_counts_more_than_what_the_index_has_of_it(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path / "tree")
        trace.insert_verifier_record("False", "\ud83d", "")
        (tmp_path / "tree/swish/I1_S01_swish_VERIFY_error_log.txt").write_text("edited")
        _imported(_exported(tmp_path / "tree", Passed(changed=1)), tmp_path / "copy")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    def test_a_raw_reply_that_utf_8_can_not_hold_is_not_lost(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path / "tree")
        reply = json.dumps({"code": "\ud83d", "description": ""})
        trace.insert_designer_or_coder_record(reply, "p", "r", ActionType.DO_CODER)
        [span] = spans_in(json.loads(_exported(tmp_path / "tree")))
        assert span is not None
        assert attributes_of(span)["kernel_trace.part.result"] == reply

    def test_what_is_no_utf_8_is_escaped(self, log_dir: Path, tmp_path: Path) -> None:
        path = "swish/I1_S01_swish_DO_CODER_prompt.txt"
        (log_dir / path).write_bytes(b"caf\xe9")
        _imported(_exported(log_dir, Passed(changed=1)), tmp_path / "copy")
        assert raw_tree(tmp_path / "copy")[path] == b"caf\\udce9"

    def test_deleted_files_are_told_and_the_others_are_whole(self, log_dir: Path, tmp_path: Path) -> None:
        (log_dir / "swish/I1_S01_swish_DO_CODER_prompt.txt").unlink()
        shutil.rmtree(log_dir / "swish/I1_S02_verify")
        _imported(_exported(log_dir, Passed(missing=3)), tmp_path / "copy")
        copied = raw_tree(tmp_path / "copy")
        assert copied.pop("swish/I1_S01_swish_DO_CODER_prompt.txt") == b""
        assert copied == raw_tree(log_dir)

    @pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
    def test_what_is_put_in_the_place_of_a_file_is_not_read(
        self, log_dir: Path, tmp_path: Path, kind: str
    ) -> None:
        (tmp_path / "secret").write_text("secret")
        path = log_dir / "swish/I1_S01_swish_DO_CODER_prompt.txt"
        path.unlink()
        if kind == "link":
            path.symlink_to(tmp_path / "secret")
        elif kind == "folder":
            path.mkdir()
        else:
            os.mkfifo(path)
        assert b"secret" not in _exported(log_dir, Passed(missing=1))

    def test_the_tree_is_only_read(self, log_dir: Path) -> None:
        before = {path: path.lstat().st_mtime_ns for path in log_dir.rglob("*")}
        _exported(log_dir)
        assert {path: path.lstat().st_mtime_ns for path in log_dir.rglob("*")} == before


# --- Into a tree ----------------------------------------------------------------------------------


def _run(log_dir: Path, run: str, task: str = "1", layout: str = "design") -> None:
    """Three actions, the second of which is judged twice and the third once."""
    trace = Trace("swish", task, log_dir, layout=layout)
    trace.insert_designer_or_coder_record(f"{run} sketch", "", "", ActionType.DO_DESIGNER)
    trace.insert_designer_or_coder_record(f"{run} code", "", "", ActionType.DO_CODER)
    for verdict in ("no", "yes"):
        trace.insert_conductor_record(f"{run} {verdict}", "", "", ActionType.DO_CODER)
    trace.insert_verifier_record("False", f"{run} log", "")
    trace.insert_conductor_record(f"{run} why", "", "", ActionType.VERIFY)


def _story(log_dir: Path) -> list[str]:
    """The texts that :func:`_run` made, by step and judgements after what they judge."""
    files = [(path, text) for path, text in tree(log_dir).items() if text]
    return [
        text
        for path, text in sorted(
            files, key=lambda it: (it[0].split("/")[-1][:6], "conductor" in it[0], it[0])
        )
    ]


class TestIntoATree:
    def test_twice_adds_nothing(self, tmp_path: Path) -> None:
        _run(tmp_path / "tree", "a")
        lines = _exported(tmp_path / "tree")
        for known in (0, 6):
            done = _imported(lines, tmp_path / "copy")
            assert (done.actions, done.known) == (6 - known, known)
            assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")
        assert _imported(lines, tmp_path / "tree").known == 6
        assert _imported(lines + lines, tmp_path / "other").actions == 6

    def test_other_records_stay_and_ours_go_after_the_last_in_order_and_with_their_judgements(
        self, tmp_path: Path
    ) -> None:
        _run(tmp_path / "tree", "theirs")
        _run(tmp_path / "ours", "ours")
        before = raw_tree(tmp_path / "tree")
        done = _imported(_exported(tmp_path / "ours"), tmp_path / "tree")
        assert (done.actions, done.failed) == (6, 0)
        after = raw_tree(tmp_path / "tree")
        assert {path: after[path] for path in before} == before
        parts = ["sketch", "code", "no", "yes", "log", "why"]
        assert _story(tmp_path / "tree") == [f"{run} {part}" for run in ("theirs", "ours") for part in parts]
        assert after["swish/conductor/I1_S05_swish_CheckCoder_result~2.txt"] == b"ours yes"

    def test_of_those_too_nothing_is_added_the_second_time(self, tmp_path: Path) -> None:
        _run(tmp_path / "tree", "theirs")
        _run(tmp_path / "ours", "ours")
        _imported(_exported(tmp_path / "ours"), tmp_path / "tree")
        before = raw_tree(tmp_path / "tree")
        assert _imported(_exported(tmp_path / "ours"), tmp_path / "tree").known == 6
        assert raw_tree(tmp_path / "tree") == before

    def test_a_judgement_that_comes_later_goes_to_the_action_that_it_judges(self, tmp_path: Path) -> None:
        with KernelTracer("swish", "1", _provider(tmp_path / "tree")) as tracer:
            with tracer.coder() as code:
                code.record("r")
            with tracer.action("next") as action:
                action.record(x="1")
            _imported(_exported(tmp_path / "tree"), tmp_path / "copy")
            with tracer.conductor(judges=code) as conductor:
                conductor.record("fine")
            del code, action, conductor
        _imported(_exported(tmp_path / "tree"), tmp_path / "copy")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    def test_what_had_begun_is_whole_when_it_comes_again_with_its_end(self, tmp_path: Path) -> None:
        self._in_the_middle_and_at_the_end(tmp_path)
        assert "r" in tree(tmp_path / "copy").values()

    def test_and_is_there_once(self, tmp_path: Path) -> None:
        self._in_the_middle_and_at_the_end(tmp_path)
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    def _in_the_middle_and_at_the_end(self, tmp_path: Path) -> None:
        with KernelTracer("swish", "1", _provider(tmp_path / "tree")) as tracer:
            with tracer.coder(prompt="p") as code:
                _imported(_exported(tmp_path / "tree"), tmp_path / "copy")
                code.record("r")
            del code
        _imported(_exported(tmp_path / "tree"), tmp_path / "copy")

    def test_one_that_was_killed_before_the_first_file_of_an_action_is_too(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path / "tree")
        for number in range(3):
            trace.insert_designer_or_coder_record(f"r{number}", "p", "t", ActionType.DO_CODER)
        lines = _exported(tmp_path / "tree")

        class Killed(BaseException):
            pass

        class Dying(Store):
            left = 1

            def publish(self, files: Sequence[NewFile], *, replace: bool = False) -> bool:
                if files and files[0][0] == ("swish",):
                    self.left -= 1
                    if self.left < 0:
                        raise Killed
                return super().publish(files, replace=replace)

        exporter = KernelTraceSpanExporter(tmp_path / "copy")
        exporter._recorder._store = Dying(str(tmp_path / "copy"))
        with pytest.raises(Killed):
            import_file(io.BytesIO(lines), exporter)
        _imported(lines, tmp_path / "copy")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_an_import_that_was_killed_anywhere_is_gone_on_with(self, tmp_path: Path, layout: str) -> None:
        for _ in range(2):
            _run(tmp_path / "tree", "a", layout=layout)
        lines = _exported(tmp_path / "tree")
        written = raw_tree(tmp_path / "tree")
        for imported in range(1, 13):
            copy = tmp_path / str(imported)
            with forked() as child:
                if child.is_child:
                    written_so_far = itertools.count(1)

                    def end_there(last: int = imported, child: forked = child) -> None:
                        if next(written_so_far) == last:  # noqa: B023 - called within the round
                            child.ends(True)

                    exporter = KernelTraceSpanExporter(copy, layout=layout)
                    import_file(io.BytesIO(lines), exporter, on_span=end_there)
            # As if it had been killed a moment before, between the files of the last and its line.
            [shard] = (copy / ".kernel_trace/index").glob("*.jsonl")
            shard.write_bytes(b"".join(shard.read_bytes().splitlines(keepends=True)[:-1]))
            _imported(lines, copy)
            assert raw_tree(copy) == written, imported

    def test_several_trees_become_one(self, tmp_path: Path) -> None:
        for number in range(3):
            _run(tmp_path / str(number), f"machine {number}")
            _run(tmp_path / str(number), f"machine {number}", task=str(10 + number))
        sources = [str(tmp_path / str(number)) for number in range(3)]
        done = merge(sources, KernelTraceSpanExporter(tmp_path / "all"))
        assert (done.actions, done.known, done.failed, done.passed) == (36, 0, 0, Passed())
        parts = ["sketch", "code", "no", "yes", "log", "why"]
        merged = tree(tmp_path / "all")
        first = tmp_path / "task 1"
        for path, text in merged.items():
            if "/I1_" in path:
                (first / path).parent.mkdir(parents=True, exist_ok=True)
                (first / path).write_text(text)
        assert _story(first) == [f"machine {number} {part}" for number in range(3) for part in parts]
        for number in range(3):
            own = {path: text for path, text in tree(sources[number]).items() if f"I1{number}_" in path}
            assert {path: text for path, text in merged.items() if f"I1{number}_" in path} == own

    def test_and_again_adds_nothing(self, tmp_path: Path) -> None:
        for number in range(2):
            _run(tmp_path / str(number), f"machine {number}", task=str(number))
        sources = [str(tmp_path / str(number)) for number in range(2)]
        merge(sources, KernelTraceSpanExporter(tmp_path / "all"))
        before = raw_tree(tmp_path / "all")
        done = merge([*sources, *sources], KernelTraceSpanExporter(tmp_path / "all"))
        assert (done.actions, done.known) == (0, 24)
        assert raw_tree(tmp_path / "all") == before

    def test_what_cannot_be_written_is_counted(self, tmp_path: Path) -> None:
        _run(tmp_path / "tree", "a")
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy/swish").write_text("in the way")
        done = _imported(_exported(tmp_path / "tree"), tmp_path / "copy")
        assert (done.actions, done.failed) == (0, 6)


# --- Without an index -----------------------------------------------------------------------------


def _without_index(log_dir: Path) -> Path:
    """The tree, some time after its index was lost."""
    shutil.rmtree(log_dir / ".kernel_trace", ignore_errors=True)
    for path in log_dir.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return log_dir


class TestWithoutAnIndex:
    def test_a_tree_of_the_first_implementation_is_the_same(self, tmp_path: Path) -> None:
        recorded = Path(__file__).with_name("conformance") / "every_action.aikg.tree.json"
        for path, text in json.loads(recorded.read_text(encoding="utf-8")).items():
            (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "tree" / path).write_bytes(text.encode())
        _imported(_exported(_without_index(tmp_path / "tree")), tmp_path / "copy")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    @pytest.mark.parametrize(
        "layout",
        [
            "design",
            "aikg",
            pytest.param(
                "akg_agents",
            ),
        ],
    )
    def test_one_of_every_layout_is_the_same_and_known_when_it_comes_again(
        self, tmp_path: Path, layout: str
    ) -> None:
        for _ in range(2):
            _run(tmp_path / "tree", "a", layout=layout)
        lines = _exported(_without_index(tmp_path / "tree"))
        assert _imported(lines, tmp_path / "copy").actions == 12
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")
        assert _imported(lines, tmp_path / "copy").known == 12

    def test_a_line_that_is_lost_costs_no_text(self, tmp_path: Path) -> None:
        _run(tmp_path / "tree", "a")
        [shard] = (tmp_path / "tree/.kernel_trace/index").iterdir()
        lines = shard.read_bytes().splitlines(keepends=True)
        _without_index(tmp_path / "tree")
        shard.parent.mkdir(parents=True)
        shard.write_bytes(b"".join(lines[:1] + lines[2:]))
        _imported(_exported(tmp_path / "tree"), tmp_path / "copy")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    def test_an_agent_with_a_part_of_two_words_is_one_action(self, tmp_path: Path) -> None:
        with KernelTracer("swish", "1", _provider(tmp_path / "tree")) as tracer:
            with tracer.action("tuner", prompt="p") as action:
                action.record(my_notes="n")
            with tracer.action("next") as action:
                action.record(x="1")
            del action
        _imported(_exported(_without_index(tmp_path / "tree")), tmp_path / "copy")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize(
        ("agent", "parts"),
        [
            ("auto_tuner", {"plan": "x", "my_result": "y"}),
            ("autotuner", {"plan": "x", "log_result": "y"}),
            ("autotuner", {"result": "x", "my_result": "y"}),
            ("DO_CODER_X", {"plan": "x"}),
            ("a b%", {"c.d": "x", "e_f": "y"}),
        ],
    )
    def test_an_agent_of_any_name_is_one_action(
        self, tmp_path: Path, layout: str, agent: str, parts: dict[str, str]
    ) -> None:
        with KernelTracer("swish", "1", _provider(tmp_path / "tree", layout)) as tracer:
            with tracer.action(agent) as action:
                action.record(**parts)
            with tracer.coder(prompt="p") as action:
                action.record(result="r")
            del action
        _imported(_exported(_without_index(tmp_path / "tree")), tmp_path / "copy")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    def test_what_is_no_file_of_ours_is_not_read(self, tmp_path: Path) -> None:
        _run(tmp_path / "tree", "a")
        (tmp_path / "secret.txt").write_text("secret")
        folder = _without_index(tmp_path / "tree") / "swish"
        (folder / "README.txt").write_text("a stranger's")
        (folder / "I1_S09_swish_DO_CODER_prompt.txt").symlink_to(tmp_path / "secret.txt")
        (folder / "I1_S09_verify").symlink_to(tmp_path)
        (folder / "I1_S10_swish_tuner_x.txt").mkdir()
        os.mkfifo(folder / "I1_S11_swish_tuner_x.txt")
        (tmp_path / "tree/other").symlink_to(tmp_path)
        lines = _exported(tmp_path / "tree", Passed(missing=3, strange=1))
        assert b"secret" not in lines
        assert b"a stranger's" not in lines

    def test_nor_is_anything_made_of_it(self, tmp_path: Path) -> None:
        _run(tmp_path / "tree", "a")
        folder = _without_index(tmp_path / "tree") / "swish"
        (folder / "I1_S09_swish_DO_CODER_prompt.txt").symlink_to(tmp_path)
        assert _exported(tmp_path / "tree", Passed(missing=1)).count(b"\n") == 6


# --- Files of others ------------------------------------------------------------------------------

_Span = dict[str, Any]


def _value(value: object) -> dict[str, object]:
    kinds: dict[type, str] = {str: "stringValue", bool: "boolValue", float: "doubleValue"}
    return {"intValue": str(value)} if type(value) is int else {kinds[type(value)]: value}


def _span(span_id: int, given: Mapping[str, object], *, parent: int = 0, **fields: object) -> _Span:
    """A span as a stranger writes it, a second long."""
    return {
        "traceId": "ab" * 16,
        "spanId": f"{span_id:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": "a stranger's",
        "startTimeUnixNano": str(10**9 * span_id),
        "endTimeUnixNano": str(10**9 * (span_id + 1)),
        "attributes": [{"key": key, "value": _value(value)} for key, value in given.items()],
        **fields,
    }


def _action(span_id: int, action: str = "a", step: int | None = None, **parts: str) -> _Span:
    given: dict[str, object] = {
        "kernel_trace.op_name": "swish",
        "kernel_trace.task_id": "1",
        "kernel_trace.action_type": action,
        **{f"kernel_trace.part.{part}": text for part, text in parts.items()},
    }
    return _span(span_id, given if step is None else {**given, "kernel_trace.step": step})


def _chat(answer: str, question: str = "asked") -> dict[str, str]:
    def message(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": message("user", question),
        "gen_ai.output.messages": message("assistant", answer),
    }


def _document(*spans: _Span) -> dict[str, object]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def _lines(*spans: _Span) -> bytes:
    return b"".join(json.dumps(_document(span)).encode() + b"\n" for span in spans)


class TestAnyFile:
    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.permutations(range(10)))
    def test_in_any_order_it_is_the_same_tree(
        self, tmp_path_factory: pytest.TempPathFactory, order: list[int]
    ) -> None:
        around = tmp_path_factory.mktemp("trees")
        with KernelTracer("swish", "2", _provider(around / "tree")) as tracer:
            with tracer.coder(prompt="p") as code, tracer.action("inner") as inner:
                code.record(_REPLY)
                inner.record(x="1")
            with tracer.conductor(judges=code) as conductor:
                conductor.record("fine")
            del code, inner, conductor
        _run(around / "tree", "a")
        _imported(_shuffled(_exported(around / "tree"), order), around / "copy")
        assert raw_tree(around / "copy") == raw_tree(around / "tree")

    def test_500_spans_in_one_line(self, tmp_path: Path) -> None:
        spans = [_action(number, x=str(number)) for number in range(1, 501)]
        done = _imported(json.dumps(_document(*spans)).encode(), tmp_path)
        assert (done.actions, done.passed) == (500, Passed())
        assert {path[-13:-8]: text for path, text in tree(tmp_path).items() if text == "7"} == {"swish": "7"}
        assert sorted(map(int, tree(tmp_path).values())) == list(range(1, 501))

    def test_one_document_over_many_lines(self, tmp_path: Path) -> None:
        text = json.dumps(_document(_action(1, x="1"), _action(2, x="2")), indent=2)
        for number, content in enumerate(
            (text, "\n\n" + text + "\n", "\ufeff" + text, text.replace("\n", "\r\n"))
        ):
            done = _imported(content.encode(), tmp_path / str(number))
            assert (done.actions, done.passed) == (2, Passed())

    def test_resources_and_scopes_by_the_dozen_in_one_document(self, tmp_path: Path) -> None:
        several = [
            {"scopeSpans": [{"spans": [_action(n, x="1")]}, {"spans": [_action(n + 50, x="2")]}]}
            for n in range(1, 25)
        ]
        done = _imported(json.dumps({"resourceSpans": several}).encode(), tmp_path)
        assert done.actions == 48

    @pytest.mark.parametrize(
        "join",
        [
            lambda documents: "".join(map(json.dumps, documents)),
            lambda documents: "\n".join(json.dumps(document, indent=2) for document in documents),
            json.dumps,
        ],
        ids=["in one line", "one below the other", "in a list"],
    )
    def test_several_documents(self, tmp_path: Path, join: Callable[[list[object]], str]) -> None:
        documents: list[object] = [_document(_action(number, x="1")) for number in (1, 2)]
        assert _imported(join(documents).encode(), tmp_path).actions == 2

    def test_steps_that_are_told_are_kept_and_the_others_go_after_them_by_time(self, tmp_path: Path) -> None:
        spans = [_action(1, x="first without"), _action(4, x="second without"), _action(3, step=5, x="five")]
        _imported(_lines(*spans), tmp_path)
        assert tree(tmp_path) == {
            "swish/I1_S05_swish_a_x.txt": "five",
            "swish/I1_S06_swish_a_x.txt": "first without",
            "swish/I1_S07_swish_a_x.txt": "second without",
        }

    def test_spans_of_other_things_are_counted_and_left_alone(self, tmp_path: Path) -> None:
        done = _imported(_lines(_span(1, {"http.method": "GET"}), _action(2, x="1")), tmp_path)
        assert (done.foreign, done.actions) == (1, 1)

    def test_what_is_no_span_costs_itself_alone(self, tmp_path: Path) -> None:
        document: Any = _document(_action(1, x="1"))
        document["resourceSpans"][0]["scopeSpans"][0]["spans"] += [None, 7]
        junk = b"\xff\xfe\nnot JSON\n" + b"[" * 100_000 + b"\n"
        lines = (
            json.dumps(document).encode() + b"\n" + junk + _lines(_action(2, x="2"))[:-1] + b"\n" + b'{"cut'
        )
        done = _imported(lines, tmp_path)
        assert done.actions == 2
        assert done.passed == Passed(torn=1, unreadable=5)

    def test_attributes_that_were_dropped_are_told_in_the_tree(self, tmp_path: Path) -> None:
        _imported(_lines({**_action(1, x="1"), "droppedAttributesCount": 3}), tmp_path)
        assert "3 attributes were dropped" in tree(tmp_path)["swish/I1_S01_swish_a_~incomplete.txt"]

    def test_an_index_itself_with_its_tree_for_the_texts(self, tmp_path: Path) -> None:
        _run(tmp_path / "tree", "a")
        [shard] = (tmp_path / "tree/.kernel_trace/index").glob("*.jsonl")
        _imported(shard.read_bytes(), tmp_path / "copy", texts=tmp_path / "tree")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    def test_an_index_that_has_beginnings(self, tmp_path: Path) -> None:
        with KernelTracer("swish", "1", _provider(tmp_path / "tree")) as tracer:
            with tracer.coder(prompt="p") as code:
                code.record("r")
            del code
        gc.collect()
        [shard] = (tmp_path / "tree/.kernel_trace/index").glob("*.jsonl")
        _imported(shard.read_bytes(), tmp_path / "copy", texts=tmp_path / "tree")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    def test_an_index_without_its_tree_says_that_the_texts_are_missing(self, tmp_path: Path) -> None:
        _run(tmp_path / "tree", "a")
        [shard] = (tmp_path / "tree/.kernel_trace/index").glob("*.jsonl")
        done = _imported(shard.read_bytes(), tmp_path / "copy")
        assert done.passed.missing or any("~incomplete" in path for path in tree(tmp_path / "copy"))


class TestModelCalls:
    def _import(self, tmp_path: Path, *spans: _Span) -> dict[str, str]:
        """The files that are not empty, by part."""
        assert _imported(_lines(*spans), tmp_path).failed == 0
        return {path.split("_")[-1]: text for path, text in tree(tmp_path).items() if text}

    def test_they_fill_the_parts_of_the_action_around_them(self, tmp_path: Path) -> None:
        action = {**_action(1, "DO_CODER", reasoning="its own"), "endTimeUnixNano": str(9 * 10**9)}
        call = _span(3, _chat(_REPLY), parent=2)
        files = self._import(tmp_path, call, _span(2, {"a": "a tool around it"}, parent=1), action)
        assert files == {"prompt.txt": "asked", "reasoning.txt": "its own", "result.txt": _DOCUMENT}

    def test_of_several_the_last_one_that_succeeded_does(self, tmp_path: Path) -> None:
        calls = [_span(number, _chat(f"answer {number}"), parent=1) for number in (2, 3)]
        failed = _span(4, _chat("half an answ"), parent=1, status={"code": 2})
        files = self._import(tmp_path, *calls, failed, _action(1, "DO_CODER"))
        assert files["result.txt"] == "answer 3"

    def test_whatever_their_order(self, tmp_path: Path) -> None:
        calls = [_span(number, _chat(f"answer {number}"), parent=1) for number in (3, 2)]
        files = self._import(tmp_path, *calls, _action(1, "DO_CODER"))
        assert files["result.txt"] == "answer 3"

    def test_a_verifier_takes_nothing_from_them(self, tmp_path: Path) -> None:
        files = self._import(tmp_path, _span(2, _chat("x"), parent=1), _action(1, "VERIFY", error_log="log"))
        assert files == {"log.txt": "log"}

    def test_parents_in_a_circle_lead_nowhere(self, tmp_path: Path) -> None:
        spans = [
            _span(2, {"a": "b"}, parent=3),
            _span(3, {"a": "b"}, parent=2),
            _span(4, _chat("x"), parent=2),
        ]
        assert self._import(tmp_path, *spans, _action(1, x="1")) == {"x.txt": "1"}


class TestPreviews:
    LONG = "0123456789" * 100

    def _sent(self, log_dir: Path | None, preview_chars: int = 100) -> bytes:
        """What a backend gets of a task, as lines."""
        sent = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False) if log_dir is None else _provider(log_dir)
        provider.add_span_processor(SimpleSpanProcessor(LinkedSpanExporter(sent, preview_chars)))
        with KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt=self.LONG) as code:
                code.record(json.dumps({"code": self.LONG, "description": "d"}), reasoning="short")
            with tracer.verifier(framework="torch") as check:
                check.record(False, self.LONG, reference=self.LONG)
            del code, check
        provider.shutdown()
        lines = b"".join(line_of(span, attributes_of(span)) for span in sent.get_finished_spans())
        assert self.LONG.encode() not in lines
        del sent, provider
        gc.collect()
        return lines

    def test_with_the_tree_that_has_the_texts_they_are_whole(self, tmp_path: Path) -> None:
        done = _imported(self._sent(tmp_path / "tree"), tmp_path / "copy", texts=tmp_path / "tree")
        assert done.passed == Passed()
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    def test_without_it_a_note_says_what_is_missing_and_where_it_is(self, tmp_path: Path) -> None:
        done = _imported(self._sent(tmp_path / "tree"), tmp_path / "copy")
        assert done.actions == 2
        copied = tree(tmp_path / "copy")
        assert copied["swish/I1_S01_swish_DO_CODER_prompt.txt"] == self.LONG[:100]
        assert copied["swish/I1_S01_swish_DO_CODER_reasoning.txt"] == "short"
        coder = copied["swish/I1_S01_swish_DO_CODER_~incomplete.txt"].splitlines()
        verifier = copied["swish/I1_S02_swish_VERIFY_~incomplete.txt"].splitlines()
        assert [line.partition(":")[0] for line in (*coder, *verifier)] == [
            "kernel_trace.part.prompt",
            "kernel_trace.part.result",
            "kernel_trace.part.error_log",
            "kernel_trace.verify.source.reference",
        ]
        assert "1000 bytes" in coder[0]
        assert "swish/I1_S01_swish_DO_CODER_prompt.txt" in coder[0]

    def test_with_a_tree_that_has_not_got_them_too(self, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        done = _imported(self._sent(tmp_path / "tree"), tmp_path / "copy", texts=tmp_path / "other")
        assert done.passed == Passed(missing=4)
        assert sum("~incomplete" in path for path in tree(tmp_path / "copy")) == 2

    def test_the_note_is_there_after_another_journey(self, tmp_path: Path) -> None:
        _imported(self._sent(tmp_path / "tree"), tmp_path / "copy")
        _is_copied_whole(tmp_path / "copy", tmp_path / "copy of the copy")

    def test_of_texts_that_no_file_has_too(self, tmp_path: Path) -> None:
        _imported(self._sent(None), tmp_path / "copy")
        copied = tree(tmp_path / "copy")
        assert not any(".size" in path for path in copied)
        assert sum("~incomplete" in path for path in copied) == 2

    def test_what_says_which_action_it_is_is_never_cut(self, tmp_path: Path) -> None:
        lines = self._sent(tmp_path / "tree", preview_chars=0)
        _imported(lines, tmp_path / "copy", texts=tmp_path / "tree")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")

    def test_a_result_in_which_there_is_a_reply_is_not_parsed_again(self, tmp_path: Path) -> None:
        sent = InMemorySpanExporter()
        provider = _provider(tmp_path / "tree")
        provider.add_span_processor(SimpleSpanProcessor(LinkedSpanExporter(sent, 20)))
        with KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder() as code:
                code.record(json.dumps({"code": f"reply = '{_REPLY}'", "description": "d"}))
            del code
        lines = b"".join(line_of(span, attributes_of(span)) for span in sent.get_finished_spans())
        del sent, provider
        gc.collect()
        _imported(lines, tmp_path / "copy", texts=tmp_path / "tree")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "tree")


def _preview(path: str, size: int = 4, offset: int | None = None) -> bytes:
    """A part that claims that its text is in the file of that path."""
    name = "kernel_trace.part.x"
    span = _action(1, x="preview")
    marks: dict[str, object] = {f"{name}.path": path, f"{name}.sha256": "0" * 64, f"{name}.size": size}
    if offset is not None:
        marks[f"{name}.offset"] = offset
    span["attributes"] += [{"key": key, "value": _value(value)} for key, value in marks.items()]
    return _lines(span)


class TestHostileFiles:
    @pytest.mark.parametrize(
        ("content", "passed"),
        [
            (b"", Passed()),
            (b"\n \n\t\n", Passed()),
            (b"[" * 100_000, Passed(torn=1)),
            (b'{"resourceSpans":' * 100_000 + b"\n", Passed(unreadable=1)),
            (b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n", Passed(unreadable=1)),
            (b"x" * 20_000_000, Passed(torn=1)),
            (b'"' + b"\\u0000" * 3_000_000 + b'"\n', Passed()),
            (b"1" * 1_000_000 + b"\n", Passed(unreadable=1)),
            (b"\0" * 5000 + b"\n", Passed(unreadable=1)),
            (bytes(range(256)) * 100, Passed(unreadable=100, torn=1)),
            (b"\x1f\x8b\x08\0 gzip", Passed(torn=1)),
        ],
        ids=[
            "empty",
            "blank",
            "deep",
            "deep and cut",
            "deep and whole",
            "long",
            "text",
            "number",
            "NUL",
            "binary",
            "gzip",
        ],
    )
    def test_that_have_no_span_leave_nothing(self, tmp_path: Path, content: bytes, passed: Passed) -> None:
        done = _imported(content, tmp_path / "copy")
        assert done == Imported(passed=passed)
        assert not (tmp_path / "copy").exists()

    @pytest.mark.parametrize("where", ["op_name", "task_id", "action_type", "part.a"])
    @pytest.mark.parametrize(
        "name", ["../../x", "/etc/passwd", "..", "a\0b", "x" * 300, "\ud800", ".kernel_trace", "", "\u202e"]
    )
    def test_names_stay_below_the_tree(self, tmp_path: Path, where: str, name: str) -> None:
        span = _action(1, a="text")
        for attribute in span["attributes"]:
            if attribute["key"] == f"kernel_trace.{where}":
                if where == "part.a":
                    attribute["key"] = f"kernel_trace.part.{name}"
                else:
                    attribute["value"] = {"stringValue": name}
        assert _imported(_lines(span), tmp_path / "copy").actions == 1
        assert [path.name for path in tmp_path.iterdir()] == ["copy"]
        assert list(tree(tmp_path / "copy").values()) == ["text"]
        _is_copied_whole(tmp_path / "copy", tmp_path / "copy of the copy")

    @pytest.mark.parametrize("step", [10**18, -1, -(2**63), 2**31, 0.5, True, "7 or so", "9" * 400])
    def test_a_step_that_can_be_none_is_counted(self, tmp_path: Path, step: object) -> None:
        span = _action(1, x="1")
        span["attributes"].append({"key": "kernel_trace.step", "value": _value(step)})
        _imported(_lines(span, _action(2, step=1, x="2")), tmp_path)
        assert tree(tmp_path) == {"swish/I1_S01_swish_a_x.txt": "2", "swish/I1_S02_swish_a_x.txt": "1"}

    def test_steps_far_apart_leave_room_for_others(self, tmp_path: Path) -> None:
        _imported(_lines(_action(1, step=2**31 - 1, x="1"), _action(2, step=1, x="2")), tmp_path)
        _imported(_lines(_action(3, x="3")), tmp_path)
        assert sorted(tree(tmp_path).values()) == ["1", "2", "3"]
        assert all(int(path.split("_S")[1].split("_")[0]) < 2**31 for path in tree(tmp_path))

    @pytest.mark.parametrize(
        "ids", [("", ""), ("0" * 32, "0" * 16), ("ab" * 15, "cd" * 9), ("x" * 32, "y" * 16), (7, None)]
    )
    def test_spans_whose_ids_are_none_are_actions_all_the_same(
        self, tmp_path: Path, ids: tuple[object, object]
    ) -> None:
        spans = [{**_action(number, x=str(number)), "traceId": ids[0], "spanId": ids[1]} for number in (1, 2)]
        assert _imported(_lines(*spans), tmp_path / "copy").actions == 2
        assert sorted(tree(tmp_path / "copy").values()) == ["1", "2"]
        _is_copied_whole(tmp_path / "copy", tmp_path / "copy of the copy")

    def test_a_judgement_of_nothing_that_is_there(self, tmp_path: Path) -> None:
        judged = {
            "traceId": "ab" * 16,
            "spanId": "ff" * 8,
            "attributes": [{"key": "kernel_trace.judges", "value": _value(True)}],
        }
        judgement = {**_action(1, "CHECK_CODER", step=7, result="fine"), "links": [judged]}
        _imported(_lines(judgement, _action(2, step=1, x="1")), tmp_path)
        assert tree(tmp_path) == {
            "swish/I1_S01_swish_a_x.txt": "1",
            "swish/conductor/I1_S07_swish_CheckCoder_result.txt": "fine",
        }

    @pytest.mark.parametrize(
        "path",
        [
            "../secret.txt",
            "inner/../../secret.txt",
            "link.txt",
            "folder/secret.txt",
            "fifo",
            "inner",
            "",
            ".",
            "a\0b",
            "x" * 300,
            "\ud800",
            "/etc/passwd",
            "//etc/passwd",
            "..\\secret.txt",
            pytest.param(
                "a/" * 5000 + "b",
            ),
        ],
        ids=lambda path: ascii(path[:20]),
    )
    @pytest.mark.parametrize("offset", [None, 0])
    def test_a_reference_to_what_is_no_file_of_the_tree_is_not_followed(
        self, tmp_path: Path, path: str, offset: int | None, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.CRITICAL)  # reports of tests can't hold what is logged of such paths
        (tmp_path / "secret.txt").write_text("secret")
        texts = tmp_path / "texts"
        (texts / "inner").mkdir(parents=True)
        (texts / "link.txt").symlink_to(tmp_path / "secret.txt")
        (texts / "folder").symlink_to(tmp_path)
        os.mkfifo(texts / "fifo")
        done = _imported(_preview(path, offset=offset), tmp_path / "copy", texts=texts)
        assert done.passed == Passed(missing=1)
        copied = tree(tmp_path / "copy")
        assert copied["swish/I1_S01_swish_a_x.txt"] == "preview"
        assert "preview of 4 bytes" in copied["swish/I1_S01_swish_a_~incomplete.txt"]

    def test_nor_does_it_leave_anything_open(self, tmp_path: Path) -> None:
        (tmp_path / "texts/inner").mkdir(parents=True)
        before = len(os.listdir("/dev/fd"))
        [resource_spans] = json.loads(_preview("inner"))["resourceSpans"]
        [span] = resource_spans["scopeSpans"][0]["spans"]
        lines = _lines(*({**span, "spanId": f"{number:016x}"} for number in range(1, 51)))
        _imported(lines, tmp_path / "copy", texts=tmp_path / "texts")
        assert len(os.listdir("/dev/fd")) - before < 20

    def test_an_absolute_path_is_not_followed_either(self, tmp_path: Path) -> None:
        (tmp_path / "secret.txt").write_text("secret")
        (tmp_path / "texts").mkdir()
        for path in (str(tmp_path / "secret.txt"), f"/{tmp_path}/secret.txt"):
            _imported(_preview(path), tmp_path / "copy", texts=tmp_path / "texts")
        assert "secret" not in tree(tmp_path / "copy").values()

    def test_what_is_logged_of_it_can_do_nothing_to_a_terminal(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        _imported(_preview("\x1b]0;title\x07\nanother line"), tmp_path / "copy")
        assert len(caplog.records) == 1
        assert caplog.records[0].getMessage().isprintable()

    @pytest.mark.parametrize(
        ("size", "offset"),
        [
            (4, -1),
            (4, -(2**63)),
            (4, 2**40),
            (4, 2**62),
            (-4, 0),
            (-(2**63), 3),
            (2**63 - 1, 0),
            pytest.param(
                2**62,
                0,
            ),
        ],
    )
    def test_nor_does_one_to_a_place_that_no_file_has_harm(
        self, tmp_path: Path, size: int, offset: int
    ) -> None:
        (tmp_path / "texts").mkdir()
        (tmp_path / "texts/a.txt").write_text("0123456789")
        done = _imported(_preview("a.txt", size, offset), tmp_path / "copy", texts=tmp_path / "texts")
        assert done.actions == 1
        assert done.passed.changed + done.passed.missing == 1

    @pytest.mark.parametrize("kind", ["link", "folder"])
    def test_what_is_no_shard_costs_nothing_but_itself(self, tmp_path: Path, kind: str) -> None:
        _run(tmp_path / "tree", "a")
        place = tmp_path / "tree/.kernel_trace/index/0.jsonl"
        if kind == "link":
            place.symlink_to(tmp_path / "elsewhere")
        else:
            place.mkdir()
        out = io.BytesIO()
        assert export_jsonl(str(tmp_path / "tree"), out).spans == 6
        assert _imported(out.getvalue(), tmp_path / "tree").known == 6

    def test_a_shard_that_is_none_is_not_followed(self, tmp_path: Path) -> None:
        _run(tmp_path / "tree", "a")
        index = tmp_path / "tree/.kernel_trace/index"
        (index / "0.jsonl.d").mkdir()
        os.mkfifo(index / "1.jsonl")
        (index / "2.txt").write_text("no shard")
        assert _exported(tmp_path / "tree", Passed(strange=1)).count(b"\n") == 6
