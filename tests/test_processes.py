"""Processes: killed at any instant, many at once, forked at a bad moment."""

from __future__ import annotations

import multiprocessing
import random
import signal
import threading
import time
from collections import Counter
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_kernel_trace import ActionType, KernelTracer, KernelTraceSpanExporter, Trace, configure
from otel_kernel_trace.indexed import Passed, indexed_spans, whole_attributes
from otel_kernel_trace.settings import OnExisting
from otel_kernel_trace.store import Store
from tests.faults import forked, python
from tests.spans import action_span
from tests.tree import tree

SUCCESS, FAILURE = SpanExportResult.SUCCESS, SpanExportResult.FAILURE
BIG = "x" * 300_000


_RECORD_FOR_EVER = """
import sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from otel_kernel_trace import ActionType, KernelTracer, KernelTraceSpanExporter, Trace, configure

log_dir, done, way = sys.argv[1:]
text = "0123456789" * 2000
with open(done, "ab", buffering=0) as ended:
    if way == "trace":
        trace = Trace("op", "1", log_dir)
        for number in range(1_000_000):
            trace.insert_designer_or_coder_record(f"{number} {text}", "p" + text, text, ActionType.DO_CODER)
            ended.write(b"%d\\n" % number)
    provider = TracerProvider()
    if way == "tracer":
        provider.add_span_processor(SimpleSpanProcessor(KernelTraceSpanExporter(log_dir)))
    else:
        configure(log_dir, tracer_provider=provider)
    tracer = KernelTracer("op", "1", provider)
    for number in range(1_000_000):
        with tracer.coder(prompt="p" + text) as action:
            action.record(result=f"{number} {text}", reasoning=text)
        ended.write(b"%d\\n" % number)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["trace", "tracer", "processor"])
@pytest.mark.parametrize("batch", range(5))
def test_sigkill_at_any_instant_leaves_whole_files_and_every_ended_span(
    tmp_path: Path, way: str, batch: int
) -> None:
    """20 kills a batch, 300 in all; every process writes on in the tree that the killed ones left."""
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
    _check_index(logs, ended)


def _check_index(log_dir: Path, ended: list[str]) -> None:
    """It has every span that ended, all references hold, and at most a line a process is cut."""
    store, passed = Store(str(log_dir)), Passed()
    spans = [whole_attributes(span, store, passed) for span in indexed_spans(store, passed)]
    assert (passed.unreadable, passed.missing, passed.changed) == (0, 0, 0)
    assert passed.torn <= 20
    results = Counter(
        str(given["kernel_trace.part.result"]).partition(" ")[0]
        for given in spans
        if "kernel_trace.part.result" in given
    )
    assert not Counter(ended) - results


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


@pytest.mark.parametrize("mode", ["continue", "overwrite", "fail"])
def test_children_of_a_run_that_judge_one_step_keep_all_they_said(tmp_path: Path, mode: OnExisting) -> None:
    exporter = KernelTraceSpanExporter(tmp_path, on_existing=mode)
    exporter.export([action_span(step=1)])
    for child_number in range(3):
        with forked() as child:
            if child.is_child:
                for number in range(5):
                    parts = {"result": f"{child_number} {number}"}
                    exporter.export([action_span("CHECK_CODER", step=1, parts=parts)])
                child.ends(exporter.counts.failed == 0)
    said = sorted(text for path, text in tree(tmp_path).items() if "conductor" in path)
    assert said == sorted(f"{child} {number}" for child in range(3) for number in range(5))


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
        with forked() as child:
            if child.is_child:
                begin()
                child.ends(True)
        thread.join()

    def test_a_child_writes_with_the_parents_exporter(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        exporter.export([action_span("a", step=1, parts={"x": "parent"})])
        with forked() as child:
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
                with forked() as child:
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

    def test_an_action_that_both_end_is_two_records(self, tmp_path: Path) -> None:
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        tracer = KernelTracer("o", "1", provider)
        with tracer.coder(prompt="p") as action, forked() as child:
            action.record(result="child's" if child.is_child else "parent's")
            if child.is_child:
                action.span.end()
                child.ends(True)
        results = sorted(text for path, text in tree(tmp_path).items() if path.endswith("result.txt"))
        assert results == ["child's", "parent's"]

    def test_a_child_that_leaves_by_os_exit_loses_nothing(self, tmp_path: Path) -> None:
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        tracer = KernelTracer("o", "1", provider)
        with tracer.coder(prompt="parent's"):
            for number in range(5):
                with forked() as child:
                    if child.is_child:
                        with tracer.action("worker", prompt=f"asked {number}") as action:
                            action.record(result=f"answered {number}")
                        child.ends(True)
        texts = list(tree(tmp_path).values())
        assert all(f"{word} {number}" in texts for word in ("asked", "answered") for number in range(5))
        assert len(list((tmp_path / ".kernel_trace" / "index").glob("*.jsonl"))) == 6

    def test_shutdown_in_a_child_is_the_childs_alone(self, tmp_path: Path) -> None:
        exporter = KernelTraceSpanExporter(tmp_path)
        with forked() as child:
            if child.is_child:
                exporter.shutdown()
                exporter.shutdown()
                child.ends(exporter.export([action_span()]) is FAILURE)
        assert exporter.export([action_span()]) is SUCCESS

    def test_a_child_reads_what_the_parent_recorded(self, tmp_path: Path) -> None:
        trace = Trace("op", "1", tmp_path)
        trace.insert_designer_or_coder_record("parent's first", "p", "r", ActionType.DO_CODER)
        with forked() as child:
            if child.is_child:
                trace.insert_designer_or_coder_record("child's", "p", "r", ActionType.DO_CODER)
                results = [record.result for record in trace.trace_list]
                child.ends(results == ["parent's first", "child's"])
        trace.insert_designer_or_coder_record("parent's", "p", "r", ActionType.DO_CODER)
        assert [record.result for record in trace.trace_list][1:] == ["parent's"]


_DAEMONISE = """
import os, sys
from opentelemetry.sdk.trace import TracerProvider
from otel_kernel_trace import ActionType, KernelTracer, Trace, configure

log_dir, others = sys.argv[1:]
trace = Trace("op", "of a Trace", log_dir)
tracer = KernelTracer("op", "1", configure(log_dir, tracer_provider=TracerProvider()))

def record(text):
    with tracer.coder(prompt="p" + text) as action:
        action.record(result=text)
    trace.insert_verifier_record("False", text, "")

record("before")
os.closerange(3, 512)
# The numbers that were ours are soon other people's.
files = [open(os.path.join(others, str(n)), "w+b", buffering=0) for n in range(20)]
folders = [os.open(others, os.O_RDONLY) for _ in range(20)]
record("after")
import gc
del trace
gc.collect()
for file in files:
    file.write(b"theirs")
for folder in folders:
    assert os.fstat(folder)
"""


def test_a_program_that_closes_all_files_to_become_a_daemon(tmp_path: Path) -> None:
    logs, others = tmp_path / "logs", tmp_path / "others"
    others.mkdir()
    with python(_DAEMONISE, logs, others) as program:
        assert program.wait(60) == 0
    assert {path.name: path.read_bytes() for path in others.iterdir()} == {
        str(number): b"theirs" for number in range(20)
    }
    texts = list(tree(logs).values())
    for text in ("before", "after"):
        assert texts.count(text) == 2
        assert texts.count(f"p{text}") == 1
    ended = [span.name for span in indexed_spans(Store(str(logs)), Passed()) if span.end_time]
    assert sorted(ended) == ["DO_CODER", "DO_CODER", "VERIFY", "VERIFY", "kernel_task"]


_AT_EXIT = """
import atexit, gc, os, sys

def at_exit():
    with tracer.coder(prompt="asked at exit") as action:
        action.record(result="answered at exit")
    os.write(theirs, b"theirs")

atexit.register(at_exit)  # runs after what OpenTelemetry and weakref have registered
from opentelemetry.sdk.trace import TracerProvider
from otel_kernel_trace import KernelTracer, configure

provider = TracerProvider(shutdown_on_exit=False)
tracer = KernelTracer("op", "1", configure(sys.argv[1], tracer_provider=provider))
with tracer.coder(prompt="asked") as action:
    action.record(result="answered")
gc.collect()
theirs = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
"""


def test_what_ends_when_the_interpreter_exits_is_written_and_nothing_else_is_touched(tmp_path: Path) -> None:
    with python(_AT_EXIT, tmp_path / "logs", tmp_path / "theirs") as program:
        assert program.wait(60) == 0
    assert {"answered", "answered at exit"} <= set(tree(tmp_path / "logs").values())
    assert (tmp_path / "theirs").read_bytes() == b"theirs"
