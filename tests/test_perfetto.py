"""Trees as timelines: what is written obeys the Trace Event format, and Perfetto's own rules."""

from __future__ import annotations

import io
import json
import random
import threading
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from otel_kernel_trace import ActionType, KernelTracer, Trace, configure
from otel_kernel_trace.otlp import line_of, spans_in
from otel_kernel_trace.perfetto import NoTimesError, Timeline, write_timeline
from otel_kernel_trace.reader import Tree
from tests.faults import forked

_START = 1_795_232_851_922_295_469
"""An instant whose microseconds since 1970 no double holds with their fraction."""


def _written(log_dir: Path) -> tuple[Timeline, dict[str, Any]]:
    out = io.BytesIO()
    done = write_timeline(Tree(log_dir), out)
    timeline: dict[str, Any] = json.loads(out.getvalue(), parse_constant=pytest.fail)
    _validate(timeline)
    return done, timeline


def _nanoseconds(microseconds: object) -> int:
    """As Perfetto reads a time: from a double."""
    assert type(microseconds) in (int, float)
    return round(float(str(microseconds)) * 1000)


def _validate(timeline: Mapping[str, Any]) -> None:
    """Fail where the format, or what Perfetto demands beyond it, is not obeyed."""
    events = timeline["traceEvents"]
    assert set(timeline) <= {"traceEvents", "otherData"}
    processes: set[int] = set()
    threads: dict[int, int] = {}
    tracks: dict[int, list[tuple[int, int]]] = defaultdict(list)
    flows: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    for event in events:
        assert type(event["pid"]) is int
        assert 0 < event["pid"] < 2**32
        match event["ph"]:
            case "M":
                assert set(event) <= {"ph", "pid", "tid", "name", "args"}
                if event["name"].startswith("process"):
                    assert event["name"] in ("process_name", "process_sort_index")
                    processes.add(event["pid"])
                else:
                    assert event["name"] in ("thread_name", "thread_sort_index")
                    # A thread id is of one process: Perfetto looks threads up by it alone.
                    assert threads.setdefault(event["tid"], event["pid"]) == event["pid"]
                (name,) = event["args"]
                value = event["args"][name]
                assert (name, type(value)) in (("name", str), ("sort_index", int))
            case "X":
                keys = {"ph", "ts", "dur", "pid", "tid", "cat", "cname", "name", "args"}
                assert set(event) <= keys
                assert set(event) >= keys - {"cname"}
                assert isinstance(event["name"], str)
                assert event["ts"] >= 0
                assert event["dur"] >= 0
                assert threads[event["tid"]] == event["pid"]
                start = _nanoseconds(event["ts"])
                tracks[event["tid"]].append((start, start + _nanoseconds(event["dur"])))
                assert event.get("cname", "good") in ("good", "terrible", "grey")
            case "s" | "f":
                assert event["ph"] not in flows[event["id"]]
                assert event.get("bp") == ("e" if event["ph"] == "f" else None)
                flows[event["id"]][event["ph"]] = (event["tid"], _nanoseconds(event["ts"]))
            case other:
                pytest.fail(f"an event of phase {other!r}")
    assert not processes & threads.keys()
    assert set(threads.values()) <= processes
    for slices in tracks.values():
        _nest(slices)
    for ends in flows.values():
        assert set(ends) == {"s", "f"}
        assert ends["s"][1] <= ends["f"][1]
        for tid, moment in ends.values():
            assert any(start <= moment <= end for start, end in tracks[tid])


def _nest(slices: list[tuple[int, int]]) -> None:
    """Fail where slices of a thread overlap each other; in order of the file where they start at once."""
    around: list[int] = []
    for start, end in sorted(slices, key=lambda one: one[0]):
        while around and around[-1] <= start:
            around.pop()
        assert not around or end <= around[-1], "one begins inside another and ends after it"
        around.append(end)


def _slices(timeline: Mapping[str, Any], name: str | None = None) -> list[dict[str, Any]]:
    return [
        event
        for event in timeline["traceEvents"]
        if event["ph"] == "X" and (name is None or event["name"] == name)
    ]


def _names(timeline: Mapping[str, Any], of: str) -> dict[int, str]:
    """By id, the names of processes or threads."""
    key = "pid" if of == "process" else "tid"
    return {
        event[key]: event["args"]["name"]
        for event in timeline["traceEvents"]
        if event["name"] == f"{of}_name" and event["ph"] == "M"
    }


def _provider(log_dir: Path) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    configure(log_dir, tracer_provider=provider)
    return provider


def _write_index(log_dir: Path, *spans: ReadableSpan) -> None:
    index = log_dir / ".kernel_trace/index"
    index.mkdir(parents=True)
    (index / "0.jsonl").write_bytes(b"".join(line_of(span, span.attributes or {}) for span in spans))


def _span(
    number: int, start: int, end: int | None, *, parent: int | None = None, run: int = 1, **more: Any
) -> ReadableSpan:
    """An action or, with a name in ``more``, something else; times are from _START."""
    attributes: dict[str, Any] = {
        "kernel_trace.op_name": "swish",
        "kernel_trace.task_id": "1",
        "kernel_trace.step": number,
        "kernel_trace.action_type": "DO_CODER",
    }
    if end is None:
        attributes["kernel_trace.pending"] = True
    attributes |= more.pop("attributes", {})
    return ReadableSpan(
        more.pop("name", "an action"),
        SpanContext(run, number, False, TraceFlags(1)),
        SpanContext(run, parent, False, TraceFlags(1)) if parent else None,
        Resource.get_empty(),
        attributes={key: value for key, value in attributes.items() if value is not None},
        start_time=_START + start,
        end_time=None if end is None else _START + end,
        **more,
    )


class TestWhatIsTold:
    def test_a_process_a_task_and_threads_for_its_run_actions_and_model_calls(self, tmp_path: Path) -> None:
        provider = _provider(tmp_path)
        for op_name in ("swish", "softmax"):
            with KernelTracer(op_name, "7", provider) as tracer, tracer.coder(prompt="p"):
                given = {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m"}
                with provider.get_tracer("client").start_as_current_span("chat m", attributes=given):
                    pass
        done, timeline = _written(tmp_path)
        assert (done.tasks, done.actions, done.model_calls) == (2, 2, 2)
        assert list(_names(timeline, "process").values()) == ["softmax · 7", "swish · 7"]
        assert list(_names(timeline, "thread").values()) == ["task", "actions", "model calls"] * 2
        threads = _names(timeline, "thread")
        told = [(threads[event["tid"]], event["name"]) for event in _slices(timeline)]
        assert told == [("task", "task"), ("actions", "DO_CODER"), ("model calls", "chat m")] * 2
        orders = [
            e["args"]["sort_index"] for e in timeline["traceEvents"] if e["name"] == "thread_sort_index"
        ]
        assert orders == sorted(set(orders))

    def test_times_are_kept_to_the_nanosecond(self, tmp_path: Path) -> None:
        moments = [(1, 7), (1008, 1_000_000_000_009), (999, 1001)]
        _write_index(tmp_path, *(_span(n, *times) for n, times in enumerate(moments, 1)))
        _, timeline = _written(tmp_path)
        origin = int(timeline["otherData"]["origin_unix_nano"])
        found = []
        for event in _slices(timeline, "DO_CODER"):
            start = origin + _nanoseconds(event["ts"]) - _START
            found.append((start, start + _nanoseconds(event["dur"])))
        assert sorted(found) == sorted(moments)

    def test_what_is_years_apart_overlaps_nothing_though_doubles_have_no_nanoseconds_for_it(
        self, tmp_path: Path
    ) -> None:
        first, later = _span(1, 0, 1), 9 * 365 * 86_400 * 10**9
        dense = [_span(n, later + 7 * n, later + 7 * (n + 1), run=2) for n in range(2, 300)]
        nested = [_span(n, later + 3000 + n, later + 5000 - n, run=2, parent=n - 1) for n in range(300, 350)]
        _write_index(tmp_path, first, *dense, *nested)
        assert len(_slices(_written(tmp_path)[1], "DO_CODER")) == 349

    def test_what_is_known_of_an_action_stands_beside_it_but_for_texts(self, tmp_path: Path) -> None:
        provider = _provider(tmp_path)
        with KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt="the prompt") as code:
                code.record(result="the code", reasoning="the thought")
            with tracer.verifier(framework="torch", impl_type="triton") as check:
                check.record(False, "line\n" * 1000, {"speedup": 0.5})
            with tracer.verifier() as check:
                check.record(True, profile={"speedup": 2.5})
        _, timeline = _written(tmp_path)
        [coder], verifiers = _slices(timeline, "DO_CODER"), _slices(timeline, "VERIFY")
        assert coder["args"]["parts"] == {
            "prompt": "swish/I1_S01_swish_DO_CODER_prompt.txt",
            "result": "swish/I1_S01_swish_DO_CODER_result.txt",
            "reasoning": "swish/I1_S01_swish_DO_CODER_reasoning.txt",
        }
        failed, passed = (event["args"] for event in verifiers)
        assert (failed["step"], failed["verdict"], failed["speedup"]) == (2, "failed", 0.5)
        assert (failed["framework"], failed["impl_type"]) == ("torch", "triton")
        assert len(failed["error"]) <= 200
        assert (passed["verdict"], passed["speedup"]) == ("passed", 2.5)
        assert [event["cname"] for event in verifiers] == ["terrible", "good"]
        text = json.dumps(timeline)
        assert not any(secret in text for secret in ("the prompt", "the code", "the thought"))

    def test_stages_nest_in_threads_of_their_own(self, tmp_path: Path) -> None:
        provider = _provider(tmp_path)
        with KernelTracer("swish", "7", provider) as tracer, tracer.verifier():
            with tracer.stage("compile", input=7), tracer.stage("lower"):
                pass
            tracer.run(["sh", "-c", "exit 3"])
        done, timeline = _written(tmp_path)
        assert (done.actions, done.stages) == (1, 3)
        assert list(_names(timeline, "thread").values()) == ["task", "actions", "stages"]
        compile_, lower, command = (_slices(timeline, name)[0] for name in ("compile", "lower", "sh"))
        assert compile_["tid"] == lower["tid"] == command["tid"]
        assert compile_["args"]["input_bytes"] == 7
        assert compile_["args"]["cpu_seconds"] >= 0
        assert command["args"]["command"] == "sh -c exit 3"
        assert (command["args"]["exit_code"], command["args"]["error"]) == (3, "exit status 3")
        assert command["cname"] == "terrible"

    def test_tokens_and_model(self, tmp_path: Path) -> None:
        given = {
            "gen_ai.response.model": "m",
            "gen_ai.usage.input_tokens": 5,
            "gen_ai.usage.output_tokens": 6,
        }
        failed = Status(StatusCode.ERROR, "\n  boom " + "x" * 1000)
        events = [Event("exception", {"exception.stacktrace": "secret"}, _START)]
        _write_index(tmp_path, _span(1, 0, 9, attributes=given, status=failed, events=events))
        [event] = _slices(_written(tmp_path)[1], "DO_CODER")
        args = event["args"]
        assert (args["model"], args["input_tokens"], args["output_tokens"]) == ("m", 5, 6)
        assert args["error"].startswith("boom x")
        assert len(args["error"]) == 200

    def test_an_arrow_leads_from_what_is_judged_to_the_judgement(self, tmp_path: Path) -> None:
        with KernelTracer("swish", "1", _provider(tmp_path)) as tracer:
            for _ in range(3):
                with tracer.coder(prompt="p") as code:
                    pass
                with tracer.conductor(prompt="?", judges=code) as verdict:
                    verdict.record("fine")
        _, timeline = _written(tmp_path)
        flows = [event for event in timeline["traceEvents"] if event["ph"] in "sf"]
        assert [event["ph"] for event in flows] == ["s", "f"] * 3
        begins = [e["ts"] for e in _slices(timeline, "DO_CODER")]
        assert [event["ts"] for event in flows if event["ph"] == "s"] == begins

    def test_none_does_where_it_would_lead_back_or_nowhere(self, tmp_path: Path) -> None:
        judges = {"kernel_trace.action_type": "CHECK_CODER"}
        links = [[Link(SpanContext(1, judged, False), {"kernel_trace.judges": True})] for judged in (1, 77)]
        _write_index(
            tmp_path,
            _span(1, 100, 200),
            _span(2, 50, 60, attributes=judges, links=links[0]),
            _span(3, 300, 400, attributes=judges, links=links[1]),
        )
        _, timeline = _written(tmp_path)
        assert not [event for event in timeline["traceEvents"] if event["ph"] in "sf"]

    @pytest.mark.parametrize("name", ["a/b · c", '\0\n"\\', "lone \ud83d", "矩阵", ""])
    def test_any_name(self, tmp_path: Path, name: str) -> None:
        trace = Trace(name, name, tmp_path)
        trace.insert_designer_or_coder_record("r", "p", "", ActionType.DO_CODER)
        _, timeline = _written(tmp_path)
        shown = name.encode("utf-8", "backslashreplace").decode()
        assert list(_names(timeline, "process").values()) == [f"{shown} · {shown}"]


class TestLanes:
    def test_what_an_action_began_is_inside_it(self, tmp_path: Path) -> None:
        with KernelTracer("swish", "1", _provider(tmp_path)) as tracer, tracer.designer(prompt="p"):
            with tracer.action("helper", prompt="h"), tracer.action("its helper", prompt="i"):
                pass
        _, timeline = _written(tmp_path)
        assert list(_names(timeline, "thread").values()) == ["task", "actions"]
        assert len({event["tid"] for event in _slices(timeline) if event["cat"] == "actions"}) == 1

    def test_what_goes_on_at_once_has_threads_of_its_own(self, tmp_path: Path) -> None:
        together = threading.Barrier(3, timeout=30)
        with KernelTracer("swish", "1", _provider(tmp_path)) as tracer:

            def work() -> None:
                with tracer.coder(prompt="p"):
                    together.wait()

            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with tracer.coder(prompt="after them"):
                pass
        _, timeline = _written(tmp_path)
        assert list(_names(timeline, "thread").values()) == ["task", "actions", "actions 2", "actions 3"]
        tids = [event["tid"] for event in _slices(timeline, "DO_CODER")]
        assert (len(set(tids)), tids[3]) == (3, tids[0])

    def test_one_that_lies_within_another_by_chance_is_not_inside_it(self, tmp_path: Path) -> None:
        _write_index(tmp_path, _span(1, 0, 100), _span(2, 10, 20), _span(3, 30, 40, parent=1))
        tids = [event["tid"] for event in _slices(_written(tmp_path)[1], "DO_CODER")]
        assert tids[0] == tids[2] != tids[1]

    def test_nor_one_that_outlasts_what_began_it(self, tmp_path: Path) -> None:
        _write_index(tmp_path, _span(1, 0, 100), _span(2, 10, 200, parent=1))
        first, second = (event["tid"] for event in _slices(_written(tmp_path)[1], "DO_CODER"))
        assert first != second

    def test_one_after_the_other_without_a_gap_is_one_thread(self, tmp_path: Path) -> None:
        _write_index(tmp_path, *(_span(n, n * 1001, (n + 1) * 1001) for n in range(1, 200)))
        assert list(_names(_written(tmp_path)[1], "thread").values()) == ["task", "actions"]

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 12), st.booleans()),
            min_size=1,
            max_size=40,
        ),
        st.integers(0, 10**6),
    )
    def test_whatever_overlaps(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        drawn: list[tuple[int, int, int, bool]],
        seed: int,
    ) -> None:
        spans = []
        for number, (start, duration, parent, has_ended) in enumerate(drawn, 1):
            end = start + duration if has_ended or parent % 3 == 1 else None  # stages are told when they end
            others = [{}, {"kernel_trace.stage": "compile"}, {"gen_ai.operation.name": "chat"}]
            given = {"kernel_trace.action_type": None, **others[parent % 3]} if parent % 3 else {}
            spans.append(_span(number, start, end, parent=parent or None, attributes=given))
        random.Random(seed).shuffle(spans)
        log_dir = tmp_path_factory.mktemp("trees") / "tree"
        _write_index(log_dir, *spans)
        done, timeline = _written(log_dir)
        shown = [event for event in _slices(timeline) if event["cat"] != "task"]
        assert done.actions + done.stages + done.model_calls == len(shown)


class TestWhatHasNotEnded:
    def test_lasts_until_the_last_sign_of_life(self, tmp_path: Path) -> None:
        _write_index(tmp_path, _span(1, 0, None), _span(2, 10, 500, parent=1), _span(3, 700, None, run=2))
        done, timeline = _written(tmp_path)
        assert done.pending == 2
        times = [(event["args"].get("pending"), event["dur"]) for event in _slices(timeline, "DO_CODER")]
        assert times == [(True, 0.5), (None, 0.49), (True, 0)]
        runs = _slices(timeline, "task")
        assert [(event["args"]["pending"], event["dur"]) for event in runs] == [(True, 0.5), (True, 0)]

    def test_of_a_process_that_died(self, tmp_path: Path) -> None:
        provider = _provider(tmp_path)
        with forked() as child:
            if child.is_child:
                with KernelTracer("swish", "1", provider) as tracer, tracer.designer(prompt="p"):
                    with tracer.coder(prompt="q"):
                        pass
                    child.ends(True)
        _, timeline = _written(tmp_path)
        designer, coder = (_slices(timeline, name)[0] for name in ("DO_DESIGNER", "DO_CODER"))
        assert designer["args"]["pending"] is True
        assert designer["ts"] + designer["dur"] >= coder["ts"] + coder["dur"] - 0.001
        assert "pending" not in coder["args"]
        assert designer["tid"] == coder["tid"]


class TestWithoutTimes:
    def test_a_tree_of_files_alone_has_none(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path)
        trace.insert_designer_or_coder_record("r", "p", "", ActionType.DO_CODER)
        for shard in (tmp_path / ".kernel_trace/index").iterdir():
            shard.unlink()
        out = io.BytesIO()
        with pytest.raises(NoTimesError, match="has a time"):
            write_timeline(Tree(tmp_path), out)
        assert out.getvalue() == b""

    def test_actions_without_a_line_are_counted(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path)
        trace.insert_designer_or_coder_record("r", "p", "", ActionType.DO_CODER)
        (tmp_path / "softmax").mkdir()
        (tmp_path / "softmax/I1_S01_softmax_DO_CODER_prompt.txt").write_text("p")
        done, timeline = _written(tmp_path)
        assert (done.untimed, done.actions, done.tasks) == (1, 1, 1)
        assert list(_names(timeline, "process").values()) == ["swish · 1"]


def test_the_lines_of_an_index_are_those_that_tests_make() -> None:
    [span] = spans_in(json.loads(line_of(_span(1, 0, 1), _span(1, 0, 1).attributes or {})))
    assert span is not None
    assert span.start_time == _START
