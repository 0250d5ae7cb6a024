"""The index beside the tree: what its lines tell, and that a fault costs no more than the line in hand."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_kernel_trace import (
    ActionType,
    KernelTracer,
    KernelTraceSpanExporter,
    KernelTraceSpanProcessor,
    Trace,
)
from otel_kernel_trace.attributes import description_in
from otel_kernel_trace.indexed import Passed, indexed_spans, layout_of, whole_attributes
from otel_kernel_trace.otlp import spans_in
from otel_kernel_trace.record import attributes_of
from otel_kernel_trace.store import Store
from tests.faults import forked, small_disk
from tests.spans import action_span
from tests.tree import raw_tree, tree

SUCCESS, FAILURE = SpanExportResult.SUCCESS, SpanExportResult.FAILURE

_PROMPT, _RESULT = "kernel_trace.part.prompt", "kernel_trace.part.result"
_REPLY = json.dumps({"code": "c", "description": "d"})
_LONG = 16_385
"""Characters of a text that does not stand in its line."""


def _shards(log_dir: Path, suffix: str = ".jsonl") -> list[Path]:
    return sorted((log_dir / ".kernel_trace" / "index").glob(f"*{suffix}"))


def _lines(log_dir: Path) -> list[ReadableSpan]:
    """The spans of all lines as they stand there, every line being whole."""
    found = []
    for shard in _shards(log_dir):
        content = shard.read_bytes()
        assert content.endswith(b"\n")
        for line in content.splitlines():
            [span] = spans_in(json.loads(line))
            assert span is not None
            found.append(span)
    return found


def _told(log_dir: Path) -> list[dict[str, Any]]:
    return [dict(attributes_of(span)) for span in _lines(log_dir)]


def _read(log_dir: Path, passed: Passed | None = None) -> list[dict[str, Any]]:
    """What is read of every span, with its texts."""
    store, passed = Store(str(log_dir)), passed or Passed()
    return [dict(whole_attributes(span, store, passed)) for span in indexed_spans(store, passed)]


def _provider(log_dir: Path, layout: str | None = None) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(KernelTraceSpanProcessor(KernelTraceSpanExporter(log_dir, layout=layout)))
    return provider


@contextmanager
def _tracer(log_dir: Path, layout: str | None = None) -> Iterator[KernelTracer]:
    with KernelTracer("swish", "1", _provider(log_dir, layout)) as tracer:
        yield tracer


class TestLines:
    def test_an_action_has_one_when_it_begins_and_one_when_it_ends(self, tmp_path: Path) -> None:
        with _tracer(tmp_path) as tracer:
            with tracer.coder(prompt="p") as action:
                [begun] = _lines(tmp_path)
                action.record(result="r")
            lines = _lines(tmp_path)
        assert [span.name for span in lines] == ["DO_CODER", "DO_CODER"]
        assert attributes_of(begun)["kernel_trace.pending"] is True
        assert begun.end_time is None
        assert "kernel_trace.pending" not in attributes_of(lines[1])
        assert lines[1].end_time is not None
        assert lines[1].context == begun.context
        assert lines[1].start_time == begun.start_time

    def test_a_task_has_one_and_so_has_a_model_call(self, tmp_path: Path) -> None:
        provider = _provider(tmp_path)
        with KernelTracer("swish", "1", provider) as tracer, tracer.coder() as action:
            call = {"gen_ai.operation.name": "chat"}
            with provider.get_tracer("t").start_as_current_span("chat m", attributes=call):
                pass
            action.record(result="r")
        names = [span.name for span in _lines(tmp_path)]
        assert names == ["DO_CODER", "chat m", "DO_CODER", "kernel_task"]
        *_, task = _told(tmp_path)
        assert {name: task[name] for name in task.keys() - description_in(task)} == {
            "kernel_trace.op_name": "swish",
            "kernel_trace.task_id": "1",
            "kernel_trace.layout": "design",
        }

    def test_spans_of_other_things_have_none(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        embedding = {"gen_ai.operation.name": "embeddings"}
        spans = [ReadableSpan("GET /", attributes={"a": 1}), ReadableSpan("e", attributes=embedding)]
        assert exporter.export(spans) is SUCCESS
        assert not (tmp_path / ".kernel_trace").exists()

    def test_a_record_of_a_trace_has_one(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path)
        trace.insert_designer_or_coder_record("r", "p", "t", ActionType.DO_CODER)
        trace.insert_verifier_record("False", "log", "{}")
        trace.insert_conductor_record("why", "", "", ActionType.VERIFY)
        coder, verifier, conductor = _told(tmp_path)
        assert (coder["kernel_trace.step"], verifier["kernel_trace.step"]) == (1, 2)
        assert verifier["kernel_trace.verify.result"] == "False"
        assert conductor["kernel_trace.step"] == 2

    def test_it_tells_the_step_on_disk_and_which_judgement_it_is(self, tmp_path: Path) -> None:
        for _ in range(2):
            with _tracer(tmp_path) as tracer:
                with tracer.coder() as action:
                    action.record(result="r")
                for verdict in ("no", "yes"):
                    with tracer.conductor() as conductor:
                        conductor.record(verdict)
        told = [
            (given["kernel_trace.step"], given.get("kernel_trace.copy"))
            for given in _told(tmp_path)
            if "kernel_trace.step" in given and "kernel_trace.pending" not in given
        ]
        assert told == [(1, None), (1, None), (1, 2), (2, None), (2, None), (2, 2)]

    @pytest.mark.parametrize("layout", ["design", "aikg", "akg_agents"])
    def test_it_tells_the_layout(self, tmp_path: Path, layout: str) -> None:
        assert layout_of(str(tmp_path)) is None
        with _tracer(tmp_path, layout) as tracer, tracer.coder():
            pass
        assert {given["kernel_trace.layout"] for given in _told(tmp_path)} == {layout}
        assert layout_of(str(tmp_path)) == layout

    def test_it_tells_nothing_of_where_the_tree_is(self, tmp_path: Path) -> None:
        with _tracer(tmp_path) as tracer, tracer.coder(prompt="p"):
            pass
        assert str(tmp_path).encode() not in b"".join(shard.read_bytes() for shard in _shards(tmp_path))


def _references(given: Mapping[str, Any]) -> dict[str, tuple[str, str, int]]:
    """Path, hash and size by attribute."""
    names = [key.removesuffix(".sha256") for key in given if key.endswith(".sha256")]
    return {name: (given[f"{name}.path"], given[f"{name}.sha256"], given[f"{name}.size"]) for name in names}


class TestReferences:
    @pytest.mark.parametrize("layout", ["design", "aikg", "akg_agents"])
    def test_every_file_has_one_and_no_text_stands_in_the_line(self, tmp_path: Path, layout: str) -> None:
        with _tracer(tmp_path, layout) as tracer:
            with tracer.designer(prompt="the text of the prompt") as design:
                design.record(
                    "the text of the result", "the text of the reasoning", plan="the text of a plan"
                )
            with tracer.verifier(framework="torch", impl_type="triton") as check:
                sources = {part: f"the text of {part}" for part in ("reference", "implementation", "script")}
                check.record(False, "the text of the log\r\n", **sources)
            with tracer.conductor(prompt="the text of a question") as conductor:
                conductor.record("the text of the verdict")
            with tracer.action("a/b") as other:
                other.record(**{"../part": "the text of another"})
        referenced = {}
        for given in _told(tmp_path):
            for path, sha256, size in _references(given).values():
                referenced[path] = (sha256, size)
            assert not any("the text of" in str(value) for value in given.values())
        files = raw_tree(tmp_path)
        assert len(files) >= 10
        assert referenced == {
            path: (hashlib.sha256(content).hexdigest(), len(content)) for path, content in files.items()
        }

    def test_a_begun_action_has_them_too(self, tmp_path: Path) -> None:
        with _tracer(tmp_path) as tracer, tracer.coder(prompt="p"):
            [given] = _told(tmp_path)
        assert _references(given)[_PROMPT] == (
            "swish/I1_S01_swish_DO_CODER_prompt.txt",
            hashlib.sha256(b"p").hexdigest(),
            1,
        )
        assert _PROMPT not in given

    def test_the_raw_reply_stands_there_where_its_file_has_another(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        exporter.export([action_span(parts={"result": _REPLY})])
        [given] = _told(tmp_path)
        assert given[_RESULT] == _REPLY
        assert tree(tmp_path)[given[f"{_RESULT}.path"]] == "c\n\n\n'''\nd\n'''"

    def test_and_not_where_its_file_has_it(self, tmp_path: Path) -> None:
        KernelTraceSpanExporter(tmp_path).export([action_span(parts={"result": "no JSON"})])
        KernelTraceSpanExporter(tmp_path / "raw", layout="akg_agents").export(
            [action_span(parts={"result": _REPLY})]
        )
        for log_dir in (tmp_path, tmp_path / "raw"):
            [given] = _told(log_dir)
            assert _RESULT not in given
            assert f"{_RESULT}.sha256" in given

    def test_a_text_that_utf_8_can_not_hold_stands_there_as_it_was(self, tmp_path: Path) -> None:
        KernelTraceSpanExporter(tmp_path).export([action_span(parts={"prompt": "a\ud83dz"})])
        [given] = _told(tmp_path)
        assert given[_PROMPT] == "a\ud83dz"
        assert tree(tmp_path)[given[f"{_PROMPT}.path"]] == "a\\ud83dz"

    def test_an_empty_part_without_a_file_stands_there(self, tmp_path: Path) -> None:
        KernelTraceSpanExporter(tmp_path).export([action_span("tuner", parts={"x": "", "y": "1"})])
        [given] = _told(tmp_path)
        assert given["kernel_trace.part.x"] == ""
        assert [given["kernel_trace.part.x"] for given in _read(tmp_path)] == [""]

    def test_the_error_log_of_an_exception_has_one(self, tmp_path: Path) -> None:
        with _tracer(tmp_path) as tracer, pytest.raises(ZeroDivisionError), tracer.coder():
            1 / 0  # noqa: B018
        given = next(given for given in _read(tmp_path) if "kernel_trace.action_type" in given)
        assert "ZeroDivisionError" in given["kernel_trace.part.error_log"]


class TestLongTexts:
    def test_they_stand_in_a_file_of_their_own_where_the_line_says(self, tmp_path: Path) -> None:
        first, second = "é\ud83d" * _LONG, "z" * _LONG
        more = {"gen_ai.input.messages": first, "gen_ai.output.messages": second, "short": "s" * 2048}
        exporter = KernelTraceSpanExporter(tmp_path)
        exporter.export([action_span("a", parts={"x": "1"}, more=more)])
        [given] = _told(tmp_path)
        [texts] = _shards(tmp_path, ".texts")
        for name, text in (("gen_ai.input.messages", first), ("gen_ai.output.messages", second)):
            path, sha256, size = _references(given)[name]
            assert tmp_path / path == texts
            offset = given[f"{name}.offset"]
            content = texts.read_bytes()[offset : offset + size]
            assert content.decode("utf-8", "surrogatepass") == text
            assert sha256 == hashlib.sha256(content).hexdigest()
            assert name not in given
        assert given["short"] == more["short"]
        [read] = _read(tmp_path)
        assert {name: read[name] for name in more} == more

    def test_so_does_a_long_raw_reply(self, tmp_path: Path) -> None:
        reply = json.dumps({"code": "c" * _LONG, "description": "d"})
        KernelTraceSpanExporter(tmp_path).export([action_span(parts={"result": reply})])
        [given] = _told(tmp_path)
        assert _RESULT not in given
        assert given[f"{_RESULT}.path"] == "swish/I1_S01_swish_DO_CODER_result.txt"
        assert given[f"kernel_trace.given.{_RESULT}.offset"] == 0
        passed = Passed()
        [read] = _read(tmp_path, passed)
        assert read[_RESULT] == reply
        assert passed == Passed()


class TestShards:
    def test_a_process_has_one_however_many_exporters_and_writers_it_has_in_turn(
        self, tmp_path: Path
    ) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        for _ in range(20):
            exporter.export([action_span()])
        [shard] = _shards(tmp_path)
        assert str(os.getpid()) in shard.name
        assert len(_lines(tmp_path)) == 20

    def test_it_is_added_to_and_never_written_anew(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        before = b""
        for _ in range(3):
            exporter.export([action_span()])
            [shard] = _shards(tmp_path)
            assert shard.read_bytes().startswith(before)
            assert len(shard.read_bytes()) > len(before)
            before = shard.read_bytes()

    def test_threads_add_whole_lines(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        texts = [f"{number} " + "x" * (number % 5 * 8000) for number in range(200)]
        with ThreadPoolExecutor(8) as pool:
            spans = [action_span("a", parts={"x": "1"}, more={"mine": text}) for text in texts]
            assert set(pool.map(lambda span: exporter.export([span]), spans)) == {SUCCESS}
        passed = Passed()
        assert sorted(given["mine"] for given in _read(tmp_path, passed)) == sorted(texts)
        assert passed == Passed()
        assert len(_shards(tmp_path)) == 1

    def test_a_forked_child_has_its_own(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        exporter.export([action_span("a", parts={"x": "parent"}, more={"mine": "x" * _LONG})])
        [parents] = _shards(tmp_path)
        before = parents.read_bytes()
        with forked() as child:
            if child.is_child:
                done = exporter.export([action_span("a", parts={"x": "child"}, more={"mine": "y" * _LONG})])
                child.ends(done is SUCCESS)
        assert parents.read_bytes() == before
        exporter.export([action_span("a", parts={"x": "parent again"}, more={"mine": "z" * _LONG})])
        passed = Passed()
        assert [(given["kernel_trace.part.x"], given["mine"][0]) for given in _read(tmp_path, passed)] == [
            ("parent", "x"),
            ("parent again", "z"),
            ("child", "y"),
        ]
        assert len(_shards(tmp_path)) == len(_shards(tmp_path, ".texts")) == 2
        assert passed == Passed()

    @pytest.mark.parametrize("removed", [".", ".kernel_trace", ".kernel_trace/index"])
    def test_where_they_are_deleted_meanwhile_there_is_a_new_one(self, tmp_path: Path, removed: str) -> None:
        logs = tmp_path / "logs"
        exporter = KernelTraceSpanExporter(logs)
        for number in range(3):
            span = action_span("a", parts={"x": str(number)}, more={"mine": str(number) * _LONG})
            assert exporter.export([span]) is SUCCESS
            assert [given["mine"][0] for given in _read(logs)] == [str(number)]
            shutil.rmtree(logs / removed)

    def test_where_one_file_alone_is_deleted_nothing_is_written_to_the_deleted_one(
        self, tmp_path: Path
    ) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        for suffix in (".texts", ".jsonl"):
            exporter.export([action_span("a", more={"mine": "x" * _LONG})])
            for file in _shards(tmp_path, suffix):
                file.unlink()
            exporter.export([action_span("a", more={"mine": "y" * _LONG})])
            assert _read(tmp_path)[-1]["mine"] == "y" * _LONG

    def test_a_tree_that_was_moved_away_gets_nothing_more(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path / "logs")
        exporter.export([action_span("a", parts={"x": "before"})])
        (tmp_path / "logs").rename(tmp_path / "rotated")
        exporter.export([action_span("a", parts={"x": "after"})])
        assert [given["kernel_trace.part.x"] for given in _read(tmp_path / "rotated")] == ["before"]
        assert [given["kernel_trace.part.x"] for given in _read(tmp_path / "logs")] == ["after"]

    def test_of_300_trees_a_few_dozen_files_are_open(self, tmp_path: Path) -> None:
        gc.collect()
        before = len(os.listdir("/dev/fd"))
        exporters = [KernelTraceSpanExporter(tmp_path / str(number)) for number in range(300)]
        for _ in range(2):
            for exporter in exporters:
                assert (
                    exporter.export([action_span("a", parts={"x": "1"}, more={"l": "x" * _LONG})]) is SUCCESS
                )
        assert len(os.listdir("/dev/fd")) - before < 120
        for number in (0, 150, 299):
            assert len(_shards(tmp_path / str(number))) == 1
            assert len(_read(tmp_path / str(number))) == 2

    def test_file_mode_is_theirs_too(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path, file_mode=0o600)
        exporter.export([action_span("a", more={"mine": "x" * _LONG})])
        files = _shards(tmp_path, "s") + _shards(tmp_path)
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


class TestWhatAnActionCosts:
    """What stands in a line is nobody's business but the line's: the action is written all the same."""

    def test_an_attribute_of_ten_thousand_digits(self, tmp_path: Path) -> None:
        span = action_span("a", parts={"x": "1"})
        span = ReadableSpan("a", span.context, attributes={**(span.attributes or {}), "mine": 10**10_000})
        assert KernelTraceSpanExporter(tmp_path).export([span]) is SUCCESS

    def test_an_event_without_a_name(self, tmp_path: Path) -> None:
        span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("a")
        span.set_attributes({"kernel_trace.part.x": "1", "kernel_trace.action_type": "a"})
        span.add_event(None)  # type: ignore[arg-type]  # the SDK takes it
        span.end()
        assert isinstance(span, ReadableSpan)
        assert KernelTraceSpanExporter(tmp_path).export([span]) is SUCCESS


class TestTorn:
    @pytest.fixture
    def logs(self, tmp_path: Path) -> Path:
        exporter = KernelTraceSpanExporter(tmp_path)
        for number in range(3):
            exporter.export([action_span("a", parts={"x": str(number)})])
        return tmp_path

    @pytest.mark.parametrize("left", [1, 40, -1])
    def test_a_last_line_that_a_crash_cut_is_passed_over_and_counted(self, logs: Path, left: int) -> None:
        [shard] = _shards(logs)
        lines = shard.read_bytes().splitlines(keepends=True)
        shard.write_bytes(lines[0] + lines[1] + lines[2][:left].removesuffix(b"}"))
        passed = Passed()
        assert [given["kernel_trace.part.x"] for given in _read(logs, passed)] == ["0", "1"]
        assert passed == Passed(torn=1)

    def test_one_that_lacks_its_line_end_alone_is_read(self, logs: Path) -> None:
        [shard] = _shards(logs)
        shard.write_bytes(shard.read_bytes().removesuffix(b"\n"))
        passed = Passed()
        assert len(_read(logs, passed)) == 3
        assert passed == Passed()

    def test_a_line_that_is_none_costs_itself_alone(self, logs: Path) -> None:
        [shard] = _shards(logs)
        first, rest = shard.read_bytes().split(b"\n", 1)
        junk = b"no JSON\n\xff\xfe\0\n\n[1]\n7\n" + b"[" * 100_000 + b"\n"
        shard.write_bytes(first + b"\n" + junk + rest)
        passed = Passed()
        assert len(_read(logs, passed)) == 3
        assert passed.unreadable >= 3

    def test_the_next_process_writes_to_another(self, logs: Path) -> None:
        [shard] = _shards(logs)
        shard.write_bytes(shard.read_bytes()[:-10])
        KernelTraceSpanExporter(logs).export([action_span("a", parts={"x": "3"})])
        passed = Passed()
        assert [given["kernel_trace.part.x"] for given in _read(logs, passed)] == ["0", "1", "3"]
        assert passed == Passed(torn=1)

    def test_texts_that_a_crash_cut_are_told(self, tmp_path: Path) -> None:
        KernelTraceSpanExporter(tmp_path).export([action_span("a", more={"mine": "x" * _LONG})])
        [texts] = _shards(tmp_path, ".texts")
        os.truncate(texts, 100)
        passed = Passed()
        assert [given["mine"] for given in _read(tmp_path, passed)] == ["x" * 100]
        assert passed == Passed(changed=1)

    def test_a_full_disk_in_the_middle_of_a_line_leaves_no_half_of_it(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", "160k") as disk:
            exporter = KernelTraceSpanExporter(disk)
            # A list is no text that could go elsewhere: it makes a line of 200 KB.
            wide = action_span("a", step=2, parts={"x": "2"})
            wide = ReadableSpan(
                "a", wide.context, attributes={**(wide.attributes or {}), "mine": ["x" * 1000] * 200}
            )
            assert exporter.export([action_span("a", step=1, parts={"x": "1"})]) is SUCCESS
            assert exporter.export([wide]) is FAILURE
            assert exporter.export([action_span("a", step=3, parts={"x": "3"})]) is SUCCESS
            assert [given["kernel_trace.part.x"] for given in _read(disk)] == ["1", "3"]
            assert len(_lines(disk)) == 2
            assert _shards(disk)[0].stat().st_blocks * 512 < 16_384

    def test_nor_in_the_middle_of_a_text(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", "256k") as disk:
            exporter = KernelTraceSpanExporter(disk)
            for letter, size in (("a", 20_000), ("b", 500_000), ("c", 20_000)):
                result = exporter.export([action_span("a", more={"mine": letter * size})])
                assert result is (FAILURE if letter == "b" else SUCCESS)
            passed = Passed()
            assert [given["mine"] for given in _read(disk, passed)] == ["a" * 20_000, "c" * 20_000]
            assert passed == Passed()
