"""What happens when the machine fails: real faults, no patched functions."""

from __future__ import annotations

import errno
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_kernel_trace import ActionType, KernelTraceSpanExporter, Trace
from otel_kernel_trace.losses import Counts
from otel_kernel_trace.store import Store
from tests.faults import forked, no_more_open_files, read_only, small_disk
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
        with forked() as child:
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


def test_threads_that_look_through_one_folder_see_all_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "o"
    folder.mkdir()
    for number in range(2000):
        (folder / str(number)).touch()
    store = Store(str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: len(store.entries(("o",))), range(200)))
    assert set(seen) == {2000}


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
