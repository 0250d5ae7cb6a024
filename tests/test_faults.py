"""What happens when the machine fails: real faults, no patched functions."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_kernel_trace import ActionType, KernelTracer, KernelTraceSpanExporter, Trace
from otel_kernel_trace.losses import Counts
from otel_kernel_trace.store import Store
from tests.faults import no_more_open_files, python, read_only, small_disk
from tests.spans import action_span
from tests.tree import raw_tree, tree

SUCCESS, FAILURE = SpanExportResult.SUCCESS, SpanExportResult.FAILURE
BIG = "x" * 300_000


class TestDisk:
    def test_full_then_free_again(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with small_disk(tmp_path / "disk") as disk, caplog.at_level(logging.ERROR):
            exporter = KernelTraceSpanExporter(disk / "logs")
            assert exporter.export([action_span(step=1, parts={"prompt": "fits"})]) is SUCCESS
            for _ in range(5):
                assert exporter.export([action_span(step=2, parts={"prompt": "p", "result": BIG})]) is FAILURE
            assert exporter.counts == Counts(6, 1, 5)
            assert [record.getMessage().count("ENOSPC") for record in caplog.records] == [1]
            assert all(BIG.encode() != data for data in raw_tree(disk / "logs").values())
            assert exporter.export([action_span(step=3, parts={"prompt": "fits again"})]) is SUCCESS
            assert "fits again" in tree(disk / "logs").values()

    def test_full_and_trace_list_still_has_what_was_recorded(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", "64k") as disk:
            trace = Trace("o", "1", disk)
            for number in range(4):
                trace.insert_designer_or_coder_record(BIG + str(number), "p", BIG, ActionType.DO_CODER)
            assert [record.result[-1] for record in trace.trace_list] == ["0", "1", "2", "3"]
            assert trace.trace_list[2].reasoning == BIG
            assert trace.trace_list[2].prompt == "p"
            del trace

    def test_read_only_then_writable_again(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with small_disk(tmp_path / "disk") as disk:
            exporter = KernelTraceSpanExporter(disk / "logs")
            with read_only(disk):
                assert exporter.export([action_span()]) is FAILURE
                assert "EROFS" in caplog.text
            assert exporter.export([action_span()]) is SUCCESS
            assert exporter.counts == Counts(2, 1, 1)

    def test_a_folder_of_somebody_elses(self, tmp_path: Path) -> None:
        (tmp_path / "logs").mkdir(mode=0o555)
        exporter, span = KernelTraceSpanExporter(tmp_path / "logs"), action_span()
        with _forked() as child:
            if child.is_child:
                if os.geteuid() == 0:  # may write anywhere
                    os.setuid(65534)
                failed = exporter.export([span]) is FAILURE
                child.ends(failed and exporter.counts == Counts(1, 0, 1))
        assert list((tmp_path / "logs").iterdir()) == []


def test_a_file_table_that_is_full_then_free_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    exporter = KernelTraceSpanExporter(tmp_path)
    assert exporter.export([action_span()]) is SUCCESS
    lost, fresh = action_span(parts={"prompt": "lost"}), KernelTraceSpanExporter(tmp_path / "fresh")
    with no_more_open_files():
        results = [exporter.export([lost]), fresh.export([lost])]
    assert results == [FAILURE, FAILURE]
    assert "EMFILE" in caplog.text
    assert exporter.export([action_span(parts={"prompt": "kept"})]) is SUCCESS
    assert "kept" in tree(tmp_path).values()
    assert "lost" not in tree(tmp_path).values()


class TestLinksInTheWay:
    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "theirs.txt").write_text("theirs")
        return outside

    @pytest.fixture
    def logs(self, tmp_path: Path) -> Path:
        logs = tmp_path / "logs"
        logs.mkdir()
        return logs

    @pytest.mark.parametrize("link", ["swish", ".kernel_trace"])
    def test_for_a_folder(
        self, logs: Path, outside: Path, link: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        (logs / link).symlink_to(outside)
        exporter = KernelTraceSpanExporter(logs)
        assert exporter.export([action_span()]) is FAILURE
        assert [path.name for path in outside.iterdir()] == ["theirs.txt"]
        assert f"{logs / link}" in caplog.text
        assert "not followed" in caplog.text

    @pytest.mark.parametrize("inner", ["conductor", "I1_S01_verify"])
    def test_for_an_inner_folder(self, logs: Path, outside: Path, inner: str) -> None:
        (logs / "swish").mkdir()
        (logs / "swish" / inner).symlink_to(outside)
        exporter = KernelTraceSpanExporter(logs)
        exporter.export([action_span("CHECK_CODER", step=1, parts={"prompt": "p"})])
        exporter.export(
            [action_span("VERIFY", step=1, more={"kernel_trace.verify.source.script": "s"})],
        )
        assert [path.name for path in outside.iterdir()] == ["theirs.txt"]
        assert exporter.counts.received == 2

    @pytest.mark.parametrize("on_existing", ["continue", "overwrite", "fail"])
    def test_for_a_file(self, logs: Path, outside: Path, on_existing: str) -> None:
        (logs / "swish").mkdir()
        link = logs / "swish" / "I1_S01_swish_DO_CODER_prompt.txt"
        link.symlink_to(outside / "theirs.txt")
        exporter = KernelTraceSpanExporter(logs, on_existing=on_existing)  # type: ignore[arg-type]
        result = exporter.export([action_span(step=1, parts={"prompt": "ours"})])
        assert (outside / "theirs.txt").read_text() == "theirs"
        assert result is (FAILURE if on_existing == "fail" else SUCCESS)
        written = [path for path in (logs / "swish").iterdir() if path.name.endswith("prompt.txt")]
        assert ("ours" in {path.read_text() for path in written}) is (result is SUCCESS)

    def test_dangling(self, logs: Path, tmp_path: Path) -> None:
        (logs / "swish").symlink_to(tmp_path / "nowhere")
        assert KernelTraceSpanExporter(logs).export([action_span()]) is FAILURE
        assert not (tmp_path / "nowhere").exists()

    def test_put_there_while_we_write(self, logs: Path, outside: Path) -> None:
        exporter = KernelTraceSpanExporter(logs)
        exporter.export([action_span(step=1)])
        (logs / "swish").rename(logs / "moved")
        (logs / "swish").symlink_to(outside)
        exporter.export([action_span(step=2)])
        assert [path.name for path in outside.iterdir()] == ["theirs.txt"]

    def test_log_dir_itself_may_be_one(self, logs: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(logs)
        assert KernelTraceSpanExporter(tmp_path / "link").export([action_span()]) is SUCCESS
        assert len(tree(logs)) == 3


_RECORD_FOR_EVER = """
import sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from otel_kernel_trace import ActionType, KernelTracer, KernelTraceSpanExporter, Trace

log_dir, done, way = sys.argv[1:]
text = "0123456789" * 2000
with open(done, "ab", buffering=0) as ended:
    if way == "trace":
        trace = Trace("op", "1", log_dir)
        for number in range(1_000_000):
            trace.insert_designer_or_coder_record(f"{number} {text}", "p" + text, text, ActionType.DO_CODER)
            ended.write(b"%d\\n" % number)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(KernelTraceSpanExporter(log_dir)))
    tracer = KernelTracer("op", "1", provider)
    for number in range(1_000_000):
        with tracer.coder(prompt="p" + text) as action:
            action.record(result=f"{number} {text}", reasoning=text)
        ended.write(b"%d\\n" % number)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["trace", "tracer"])
@pytest.mark.parametrize("batch", range(5))
def test_sigkill_at_any_instant_leaves_whole_files_and_every_ended_span(
    tmp_path: Path, way: str, batch: int
) -> None:
    """20 kills a batch, 200 in all; every process writes on in the tree that the killed ones left."""
    text = "0123456789" * 2000
    logs, done = tmp_path / "logs", tmp_path / "done"
    luck = random.Random(batch)
    ended: list[str] = []
    for _ in range(20):
        done.write_bytes(b"")
        process = python(_RECORD_FOR_EVER, logs, done, way)
        deadline = time.monotonic() + 30
        while not done.stat().st_size and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(luck.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
        ended.extend(done.read_bytes().decode().split())
    assert len(ended) >= 20
    results: list[str] = []
    for path, content in tree(logs).items():
        if path.endswith("_result.txt"):
            number, _, rest = content.partition(" ")
            assert rest == text, f"{path} is cut"
            results.append(number)
        else:
            assert content == ("p" + text if path.endswith("_prompt.txt") else text), f"{path} is cut"
    missing = list(ended)
    for number in results:
        if number in missing:
            missing.remove(number)
    assert not missing


def _record_in_process(log_dir: str, process: int, records: int) -> None:
    trace = Trace("op", "1", log_dir)
    exporter = KernelTraceSpanExporter(log_dir)

    def work(thread: int) -> None:
        for number in range(records):
            name = f"{process}.{thread}.{number}"
            if thread % 2:
                trace.insert_designer_or_coder_record(name, name, "", ActionType.DO_CODER)
            else:
                parts = {"prompt": name, "result": name}
                exporter.export([action_span("FIX_CODER", op_name="op", step=number + 1, parts=parts)])

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    "context",
    [multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")],
    ids=["fork", "spawn"],
)
def test_eight_processes_of_eight_threads_on_one_task(
    tmp_path: Path, context: ForkContext | SpawnContext
) -> None:
    processes = [context.Process(target=_record_in_process, args=(str(tmp_path), n, 10)) for n in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    prompts = {path: text for path, text in tree(tmp_path).items() if path.endswith("_prompt.txt")}
    expected = {f"{p}.{t}.{n}" for p in range(8) for t in range(8) for n in range(10)}
    assert len(prompts) == len(expected)
    assert set(prompts.values()) == expected
    steps = {path.split("_")[1] for path in prompts}
    assert len(steps) == len(expected)
    for path, text in prompts.items():
        assert tree_text(tmp_path, path.replace("prompt", "result")) == text


def tree_text(log_dir: Path, path: str) -> str:
    return (log_dir / path).read_text()


def _begin(log_dir: str, action_type: str, go: Event) -> None:
    go.wait()
    KernelTraceSpanExporter(log_dir).export([action_span(action_type, step=1, parts={"error_log": "x"})])


@pytest.mark.slow
@pytest.mark.parametrize("is_old", [True, False])
def test_processes_that_begin_a_task_in_the_same_instant_share_no_step(tmp_path: Path, is_old: bool) -> None:
    context = multiprocessing.get_context("fork")
    actions = ["DO_DESIGNER", "DO_CODER", "VERIFY", "tuner"]
    for number in range(25):
        logs = tmp_path / str(number)
        if is_old:
            (logs / "swish").mkdir(parents=True)
            (logs / "swish" / "I1_S01_swish_FIX_CODER_error_log.txt").touch()
        go = context.Event()
        processes = [context.Process(target=_begin, args=(str(logs), action, go)) for action in actions]
        for process in processes:
            process.start()
        go.set()
        for process in processes:
            process.join(60)
        steps = sorted(path.split("_")[1] for path in tree(logs) if path.endswith("error_log.txt"))
        assert steps == [f"S0{step}" for step in range(1, 5 + is_old)]


def test_threads_that_look_through_one_folder_see_all_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "o"
    folder.mkdir()
    for number in range(2000):
        (folder / str(number)).touch()
    store = Store(str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: len(store.entries(("o",))), range(200)))
    assert set(seen) == {2000}


class TestFork:
    def test_while_a_processor_is_slow_to_take_a_tasks_first_span(self, tmp_path: Path) -> None:
        class Slow(SpanProcessor):
            def on_start(self, span: object, parent_context: object = None) -> None:
                time.sleep(0.2)

        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(Slow())
        tracer = KernelTracer("o", "1", provider)

        def begin() -> None:
            with tracer.coder():
                pass

        thread = threading.Thread(target=begin)
        thread.start()
        time.sleep(0.05)
        with _forked() as child:
            if child.is_child:
                begin()
                child.ends(True)
        thread.join()

    def test_a_child_writes_with_the_parents_exporter(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        exporter.export([action_span("a", step=1, parts={"x": "parent"})])
        with _forked() as child:
            if child.is_child:
                child.ends(exporter.export([action_span("a", step=2, parts={"x": "child"})]) is SUCCESS)
        exporter.export([action_span("a", step=2, parts={"x": "parent again"})])
        assert tree(tmp_path) == {
            "swish/I1_S01_swish_a_x.txt": "parent",
            "swish/I1_S02_swish_a_x.txt": "child",
            "swish/I1_S03_swish_a_x.txt": "parent again",
        }

    def test_while_other_threads_export(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        trace = Trace("op", "2", tmp_path)
        stop = threading.Event()

        def export() -> None:
            while not stop.is_set():
                exporter.export([action_span(parts={"prompt": "x" * 1000})])
                trace.insert_verifier_record("True", "", "")

        threads = [threading.Thread(target=export) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for number in range(25):
                with _forked() as child:
                    if child.is_child:
                        trace.insert_verifier_record("False", f"child {number}", "")
                        child.ends(
                            exporter.export([action_span(parts={"prompt": str(number)})]) is SUCCESS
                            and trace.trace_list[-1].error_log == f"child {number}"
                        )
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        texts = list(tree(tmp_path).values())
        assert all(texts.count(f"child {number}") == 1 for number in range(25))

    def test_shutdown_in_a_child_is_the_childs_alone(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        with _forked() as child:
            if child.is_child:
                exporter.shutdown()
                exporter.shutdown()
                child.ends(exporter.export([action_span()]) is FAILURE)
        assert exporter.export([action_span()]) is SUCCESS

    def test_a_child_reads_what_the_parent_recorded(self, tmp_path: Path) -> None:
        trace = Trace("op", "1", tmp_path)
        trace.insert_designer_or_coder_record("parent's first", "p", "r", ActionType.DO_CODER)
        with _forked() as child:
            if child.is_child:
                trace.insert_designer_or_coder_record("child's", "p", "r", ActionType.DO_CODER)
                results = [record.result for record in trace.trace_list]
                child.ends(results == ["parent's first", "child's"])
        trace.insert_designer_or_coder_record("parent's", "p", "r", ActionType.DO_CODER)
        assert [record.result for record in trace.trace_list][1:] == ["parent's"]


class _forked:  # noqa: N801 - reads as a word
    """Runs the block twice, in a child and in its parent, which waits for the child's verdict."""

    def __enter__(self) -> _forked:
        self._pid = os.fork()
        self.is_child = self._pid == 0
        return self

    def ends(self, as_expected: bool) -> None:
        os._exit(0 if as_expected else 1)

    def __exit__(self, *_: object) -> None:
        if self.is_child:
            os._exit(2)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                assert os.waitstatus_to_exitcode(status) == 0
                return
            time.sleep(0.01)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        pytest.fail("the child hangs")


class TestFileSystemsThatLackSomething:
    """The other ways to put a file in place, for systems that lack the first."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        store = Store(str(tmp_path))
        store._has_unnamed_files = False
        return store

    def test_without_unnamed_files(self, store: Store, tmp_path: Path) -> None:
        assert store.publish([(("a",), "x", b"1"), (("b",), "y", b"2")])
        assert not store.publish([(("a",), "new", b"3"), (("a",), "x", b"4")])
        assert raw_tree(tmp_path) == {"a/x": b"1", "b/y": b"2"}
        assert os.listdir(tmp_path / ".kernel_trace" / "tmp") == []

    def test_without_links(self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # No file system without links can be mounted everywhere, hence the patch.
        def link(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", link)
        assert store.publish([(("a",), "x", b"1")])
        assert not store.publish([(("a",), "x", b"2")])
        assert raw_tree(tmp_path) == {"a/x": b"1"}
        assert os.listdir(tmp_path / ".kernel_trace" / "tmp") == []
