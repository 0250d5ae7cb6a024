"""What a tree tells: with an index and without, finished and growing, ours and strangers'."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

from otel_kernel_trace import ActionType, KernelTracer, KernelTraceSpanExporter, Trace, configure
from otel_kernel_trace.actions import Agent
from otel_kernel_trace.index import Index
from otel_kernel_trace.indexed import Passed, spans_of
from otel_kernel_trace.measurements import profile_in, speedup_in
from otel_kernel_trace.reader import (
    Action,
    Attempt,
    ModelCall,
    NoTreeError,
    Outcome,
    Price,
    Spent,
    Summary,
    Task,
    Tokens,
    Tree,
    attempts_of,
    blame,
    code_of,
    compare,
    cost_of,
    diff,
    pair_of,
    spent,
)
from otel_kernel_trace.reader.comparison import fisher
from otel_kernel_trace.reader.lines import Line, LineReader, _line_of
from otel_kernel_trace.reader.outcome import error_line
from otel_kernel_trace.record import attributes_of
from otel_kernel_trace.store import Store
from tests.spans import action_span

REPLY = json.dumps({"code": "import triton\nBLOCK = 64\n", "description": "tiles"})
BETTER = json.dumps({"code": "import triton\nBLOCK = 128\n", "description": "larger tiles"})


def run(log_dir: Path, op_name: str = "swish", task_id: str = "1", layout: str | None = None) -> None:
    """A task whose second attempt passes."""
    provider = configure(log_dir, tracer_provider=TracerProvider(shutdown_on_exit=False), layout=layout)
    with KernelTracer(op_name, task_id, provider) as tracer:
        with tracer.designer(prompt="sketch it") as design:
            design.record("in tiles", "thought")
        with tracer.coder(prompt="write it") as code:
            given = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "a model"}
            usage = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20}
            with provider.get_tracer("client").start_as_current_span(
                "chat a model", attributes=given
            ) as call:
                call.set_attributes(usage)
            code.record(REPLY, "thought")
        with tracer.verifier(framework="torch", impl_type="triton") as check:
            check.record(
                False, "compiling\nerror: no such block\n", reference="ref()", implementation="kernel()"
            )
        with tracer.conductor(prompt="what is wrong?", judges=check) as verdict:
            verdict.record("the block")
        with tracer.coder(prompt="mend it", action_type=ActionType.FIX_CODER) as code:
            code.record(BETTER, "thought")
        with tracer.verifier() as check:
            check.record(True, profile={"speedup": 1.5})
    provider.shutdown()


def without_index(log_dir: Path) -> None:
    shutil.rmtree(log_dir / ".kernel_trace")


class TestTree:
    def test_a_task_in_a_line(self, tmp_path: Path) -> None:
        run(tmp_path)
        [summary] = Tree(tmp_path).summaries()
        assert summary.outcome is Outcome.PASSED
        assert (summary.steps, summary.actions, summary.verified, summary.passed) == (5, 6, 2, 1)
        assert (summary.first_failed, summary.first_pass, summary.best_speedup) == (3, 5, 1.5)
        assert summary.tokens == Tokens(100, 20)
        assert summary.wall_time is not None
        assert summary.wall_time > 0

    @pytest.mark.parametrize("verdict", [True, False])
    def test_how_a_trace_stands_without_a_provider(self, tmp_path: Path, verdict: bool) -> None:
        trace = Trace("swish", "1", tmp_path)
        trace.insert_designer_or_coder_record("r", "p", "t", ActionType.DO_CODER)
        assert Tree(tmp_path).summaries()[0].outcome is Outcome.UNVERIFIED
        trace.insert_verifier_record(str(verdict), "log", "")
        assert Tree(tmp_path).summaries()[0].outcome is (Outcome.PASSED if verdict else Outcome.FAILED)

    def test_all_of_it(self, tmp_path: Path) -> None:
        run(tmp_path)
        tree = Tree(tmp_path)
        task = tree.task("swish", "1")
        assert [(action.step, action.action_type) for action in task.actions] == [
            (1, "DO_DESIGNER"),
            (2, "DO_CODER"),
            (3, "VERIFY"),
            (3, "ANALYZE_ERROR"),
            (4, "FIX_CODER"),
            (5, "VERIFY"),
        ]
        code, failed = task.actions[1], task.actions[2]
        assert tree.text(code.parts["prompt"]) == "write it"
        assert tree.text(code.parts["result"]) == "import triton\nBLOCK = 64\n\n\n\n'''\ntiles\n'''"
        assert tree.text(code.parts["reply"]) == REPLY
        assert (code.tokens, code.model) == (Tokens(100, 20), "a model")
        assert (failed.passed, failed.framework, failed.impl_type) == (False, "torch", "triton")
        assert tree.text(failed.parts["source.implementation"]) == "kernel()"
        assert task.actions[3].judges == failed.span_id
        assert task.actions[5].profile == {"speedup": 1.5}
        [call] = task.model_calls
        assert (call.parent_id, call.model, call.tokens) == (code.span_id, "a model", Tokens(100, 20))
        assert len(task.runs) == 1

    def test_one_task_alone_is_the_same(self, tmp_path: Path) -> None:
        for op_name, task_id in itertools.product(("swish", "gelu"), ("1", "12", 'a "b\\c" \u2028 é')):
            run(tmp_path, op_name, task_id)
        whole = Tree(tmp_path)
        assert len(whole.tasks()) == 6
        for key in whole.tasks():
            alone = Tree(tmp_path, only=key)
            assert alone.tasks() == [key]
            assert alone.task(*key) == whole.task(*key)

    def test_it_grows(self, tmp_path: Path) -> None:
        run(tmp_path)
        tree = Tree(tmp_path)
        assert not tree.refresh()
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        tracer = KernelTracer("gelu", "7", provider)
        with tracer.coder(prompt="asked"):
            assert tree.refresh()
            summary = tree.summary("gelu", "7")
            assert (summary.outcome, summary.pending, summary.last) == (Outcome.UNFINISHED, 1, "DO_CODER")
            [action] = tree.task("gelu", "7").actions
            assert action.is_pending
            assert tree.text(action.parts["prompt"]) == "asked"
        assert tree.refresh()
        assert tree.summary("gelu", "7").pending == 0
        assert tree.summary("gelu", "7").outcome is Outcome.UNFINISHED
        tracer.close()
        assert tree.refresh()
        assert tree.summary("gelu", "7").outcome is Outcome.UNVERIFIED

    def test_a_line_that_is_being_written_comes_later(self, tmp_path: Path) -> None:
        Trace("swish", "1", tmp_path).insert_verifier_record("True", "", "")
        [shard] = (tmp_path / ".kernel_trace/index").glob("*.jsonl")
        line = shard.read_bytes()
        with shard.open("ab") as file:
            file.write(line.replace(b'"stringValue":"1"', b'"stringValue":"2"')[:200])
        tree = Tree(tmp_path)
        assert len(tree.tasks()) == 1
        with shard.open("ab") as file:
            file.write(line.replace(b'"stringValue":"1"', b'"stringValue":"2"')[200:])
        assert tree.refresh()
        assert tree.tasks() == [("swish", "1"), ("swish", "2")]

    @pytest.mark.parametrize("layout", ["design", "aikg", "akg_agents"])
    def test_without_an_index_files_say_what_they_can(self, tmp_path: Path, layout: str) -> None:
        run(tmp_path, layout=layout)
        without_index(tmp_path)
        tree = Tree(tmp_path)
        [summary] = tree.summaries()
        # A verification that passes leaves no file.
        assert (summary.outcome, summary.steps, summary.best_speedup) == (Outcome.UNKNOWN, 4, None)
        task = tree.task("swish", "1")
        assert len(task.actions) == 5
        assert all(action.start is None and action.passed is None for action in task.actions)
        assert tree.text(task.actions[1].parts["prompt"]) == "write it"

    def test_what_the_first_implementation_wrote(self, tmp_path: Path) -> None:
        recorded = Path(__file__).with_name("conformance") / "every_action.aikg.tree.json"
        for path, text in json.loads(recorded.read_text(encoding="utf-8")).items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(text.encode())
        tree = Tree(tmp_path)
        for key in tree.tasks():
            for action in tree.task(*key).actions:
                assert action.parts
                assert all(tree.text(part) is not None for part in action.parts.values())

    def test_a_tree_without_an_index_that_was_continued(self, tmp_path: Path) -> None:
        run(tmp_path)
        without_index(tmp_path)
        run(tmp_path)
        steps = [action.step for action in Tree(tmp_path).task("swish", "1").actions]
        assert steps == [1, 2, 3, 3, 4, 5, 6, 7, 7, 8, 9]

    def test_killed_between_files_and_line_an_action_has_its_files(self, tmp_path: Path) -> None:
        run(tmp_path)
        [shard] = (tmp_path / ".kernel_trace/index").glob("*.jsonl")
        lines = shard.read_bytes().splitlines(keepends=True)
        shard.write_bytes(b"".join(line for line in lines if b'"endTimeUnixNano"' not in line))
        tree = Tree(tmp_path)
        code = tree.task("swish", "1").actions[1]
        assert code.is_pending
        assert tree.text(code.parts["result"]).startswith("import triton")

    def test_of_runs_that_overwrite_each_other_the_last_counts(self, tmp_path: Path) -> None:
        for verdict in ("True", "False"):
            exporter = KernelTraceSpanExporter(tmp_path, on_existing="overwrite")
            parts = {"error_log": f"it was {verdict}"}
            exporter.export(
                [action_span("VERIFY", step=1, parts=parts, more={"kernel_trace.verify.result": verdict})]
            )
        tree = Tree(tmp_path)
        [action] = tree.task("swish", "1").actions
        assert (action.passed, tree.summaries()[0].passed) == (False, 0)

    def test_no_tree_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(NoTreeError, match="expected the root of a tree"):
            Tree(tmp_path)
        with pytest.raises(FileNotFoundError):
            Tree(tmp_path / "nope")
        run(tmp_path)
        with pytest.raises(NoTreeError, match="no task '9'"):
            Tree(tmp_path, only=("swish", "9"))

    def test_one_that_is_still_empty_may_be_followed(self, tmp_path: Path) -> None:
        tree = Tree(tmp_path, may_be_empty=True)
        assert tree.summaries() == []
        run(tmp_path)
        assert tree.refresh()
        assert len(tree.summaries()) == 1

    def test_nothing_is_written(self, tmp_path: Path) -> None:
        run(tmp_path)
        before = sorted((str(p), p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
        tree = Tree(tmp_path)
        tree.task("swish", "1")
        assert sorted((str(p), p.stat().st_mtime_ns) for p in tmp_path.rglob("*")) == before


class TestHostileTrees:
    def test_paths_that_lead_out_are_not_read(self, tmp_path: Path) -> None:
        log_dir = tmp_path / "tree"
        run(log_dir)
        (tmp_path / "secret").write_text("secret")
        (log_dir / "link").symlink_to(tmp_path)
        [shard] = (log_dir / ".kernel_trace/index").glob("*.jsonl")
        content = shard.read_bytes()
        path = b"swish/I1_S02_swish_DO_CODER_prompt.txt"
        for hostile in (
            b"../secret",
            os.fsencode(tmp_path / "secret"),
            b"link/secret",
            b"swish/../../secret",
        ):
            shard.write_bytes(content.replace(path, hostile))
            tree = Tree(log_dir)
            with pytest.raises(OSError):  # noqa: PT011 - which one depends on the way
                tree.text(tree.task("swish", "1").actions[1].parts["prompt"])

    @pytest.mark.parametrize(
        "line",
        [
            b"\n",
            b"{\n",
            b"null\n",
            b"[" * 100_000 + b"\n",
            b'{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}\n',
            b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"\xff","spanId":"1"}]}]}]}\n',
            b"\xff\xfe\0" * 1000 + b"\n",
            b'"spans":[{"traceId":"' + b"0" * 32 + b'","spanId":"' + b"0" * 16 + b'"\n',
        ],
        ids=range(8),
    )
    def test_lines_that_are_none_are_passed_over(self, tmp_path: Path, line: bytes) -> None:
        run(tmp_path)
        [shard] = (tmp_path / ".kernel_trace/index").glob("*.jsonl")
        shard.write_bytes(line + shard.read_bytes() + line)
        [summary] = Tree(tmp_path).summaries()
        assert summary.outcome is Outcome.PASSED
        assert Tree(tmp_path, only=("swish", "1")).task("swish", "1").summary == summary

    def test_shards_that_are_none_are_passed_over(self, tmp_path: Path) -> None:
        run(tmp_path)
        index = tmp_path / ".kernel_trace/index"
        (index / "0.jsonl").mkdir()
        os.mkfifo(index / "1.jsonl")
        (index / "2.jsonl").symlink_to("/etc/passwd")
        (index / "3.jsonl").touch()
        assert len(Tree(tmp_path).summaries()) == 1
        assert len(Tree(tmp_path, only=("swish", "1")).summaries()) == 1


_names = st.text(max_size=20)


class TestLines:
    @given(
        op_name=_names,
        task_id=_names,
        action_type=st.one_of(_names, st.sampled_from([action.name for action in ActionType])),
        step=st.integers(0, 10**6),
        verdict=st.none() | st.sampled_from(["True", "False", 'a "quote"', "é\n"]),
        profile=st.none()
        | st.sampled_from(['{"speedup": 2.5}', "speedup: 1.25x", "{", '{"speedup": "\\"1"}']),
        tokens=st.none() | st.integers(0, 10**9),
        parts=st.dictionaries(_names, _names, max_size=2),
    )
    def test_looked_at_as_bytes_they_say_what_they_say_parsed(
        self,
        op_name: str,
        task_id: str,
        action_type: str,
        step: int,
        verdict: str | None,
        profile: str | None,
        tokens: int | None,
        parts: dict[str, str],
    ) -> None:
        more: dict[str, str | int] = {}
        more |= {} if verdict is None else {"kernel_trace.verify.result": verdict}
        more |= {} if profile is None else {"kernel_trace.verify.profile": profile}
        more |= {} if tokens is None else {"gen_ai.usage.input_tokens": tokens}
        span = action_span(action_type, op_name=op_name, task_id=task_id, step=step, parts=parts, more=more)
        written: list[bytes] = []

        class Kept(Index):
            def _shard(self, suffix: str) -> _Lines:  # type: ignore[override]  # all that is asked of it
                return _Lines(written)

        Kept(Store("/nowhere"), "design").add(span, attributes_of(span))
        [line] = written
        reader = LineReader(Passed())
        assert reader.begun(line) is None
        [seen] = reader.read(line)
        [parsed] = [_line_of(span) for span in spans_of(line, Passed())]
        assert isinstance(seen, Line)
        assert isinstance(parsed, Line)
        if not seen.passed:  # measurements of kernels that are wrong count nowhere
            parsed = parsed._replace(speedup=seen.speedup)
        assert seen == parsed

    def test_of_a_beginning_they_say_so(self, tmp_path: Path) -> None:
        run(tmp_path)
        [shard] = (tmp_path / ".kernel_trace/index").glob("*.jsonl")
        lines = shard.read_bytes().splitlines(keepends=True)
        reader = LineReader(Passed())
        begun = {key for line in lines if (key := reader.begun(line))}
        found = [one for line in lines if reader.begun(line) is None for one in reader.read(line)]
        assert begun == {one.span for one in found if isinstance(one, Line) and one.action_type}
        begun_parsed = [_line_of(span) for line in lines for span in spans_of(line, Passed())]
        assert begun == {one for one in begun_parsed if one is not None and not isinstance(one, Line)}


class _Lines:
    def __init__(self, written: list[bytes]) -> None:
        self._written = written

    def append(self, line: bytes) -> int:
        self._written.append(line)
        return 0


def _action(
    step: int, agent: Agent | None, start: int = 0, end: int = 0, passed: bool | None = None
) -> Action:
    kinds = {Agent.CODER: "DO_CODER", Agent.VERIFIER: "VERIFY", Agent.CONDUCTOR: "ANALYZE_ERROR"}
    kind = kinds.get(agent, "tuner") if agent else "tuner"
    return Action(
        "o", "1", step, kind, agent, start=start, end=end, passed=passed, trace_id="t", span_id=str(step)
    )


def _task(
    actions: Sequence[Action], calls: Sequence[ModelCall] = (), runs: Sequence[tuple[int, int]] = ()
) -> Task:
    summary = Summary(
        "o", "1", Outcome.PASSED, 0, 0, 0, 0, None, None, Tokens(), None, None, None, 0, "", 0, None
    )
    return Task(summary, tuple(actions), tuple(calls), tuple(runs))


class TestAttempts:
    def test_each_has_the_last_verification_before_the_next(self) -> None:
        coder, verifier = Agent.CODER, Agent.VERIFIER
        actions = [
            _action(1, coder),
            _action(2, verifier, passed=False),
            _action(3, verifier, passed=True),
            _action(4, coder),
            _action(5, coder),
            _action(6, verifier, passed=False),
        ]
        attempts = attempts_of(_task(actions))
        verified = [attempt.verification.step if attempt.verification else None for attempt in attempts]
        assert ([attempt.step for attempt in attempts], verified) == ([1, 4, 5], [3, None, 6])

    @pytest.mark.parametrize(
        ("verdicts", "expected"),
        [
            ([False, True], (0, 1)),
            ([False, None, True, False], (0, 2)),
            ([False, False, True, True], (1, 2)),
            ([None, True], (0, 1)),
            ([False, False], (0, 1)),
            ([True, False], (0, 1)),
            ([True], None),
            ([], None),
        ],
    )
    def test_the_last_failed_and_the_first_good_one(
        self, verdicts: list[bool | None], expected: tuple[int, int] | None
    ) -> None:
        attempts = [
            Attempt(_action(step, Agent.CODER), _action(step, Agent.VERIFIER, passed=verdict))
            for step, verdict in enumerate(verdicts)
        ]
        pair = pair_of(attempts)
        assert (None if pair is None else (pair[0].step, pair[1].step)) == expected

    def test_how_one_became_the_other(self, tmp_path: Path) -> None:
        run(tmp_path)
        tree = Tree(tmp_path)
        before, after = attempts_of(tree.task("swish", "1"))
        codes = [code_of(tree, attempt) for attempt in (before, after)]
        assert diff(codes[0], codes[1], "a", "b")[-2:] == ["-BLOCK = 64", "+BLOCK = 128"]
        blamed = blame(zip((before, after), codes, strict=True))
        assert [(line.text, line.attempt.step) for line in blamed] == [
            ("import triton", 2),
            ("BLOCK = 128", 4),
        ]


class TestTime:
    def test_what_went_on_at_once_is_counted_once_and_a_models_time_first(self) -> None:
        call = ModelCall("chat", 12, 18, "m", None, "", "t", "c", "1")
        actions = [_action(1, Agent.CODER, 10, 20), _action(2, Agent.VERIFIER, 15, 40)]
        task = _task(actions, [call], [(5, 50)])
        assert spent(task) == Spent(model=6, verify=22, unaccounted=2, waiting=15)
        assert spent(task).total == 45

    def test_what_is_not_known_is_not_made_up(self) -> None:
        assert spent(_task([Action("o", "1", 1, "DO_CODER", Agent.CODER)])) == Spent()

    def test_cost_is_known_where_all_prices_are(self) -> None:
        prices = {"m": Price(1.0, 10.0)}
        assert cost_of([("m", Tokens(1_000_000, 100_000))], prices) == 2.0
        assert cost_of([("m", Tokens(1, 1)), ("n", Tokens(1, 1))], prices) is None
        assert cost_of([("n", Tokens())], prices) == 0


class TestComparison:
    def _tasks(self, passed: int, failed: int, speedup: float = 1.0) -> list[Summary]:
        one = _task([]).summary
        good = replace(one, first_pass=2, best_speedup=speedup, tokens=Tokens(10, 10))
        bad = replace(one, outcome=Outcome.FAILED)
        return [good] * passed + [bad] * failed

    def test_what_is_worse_and_what_that_rests_on(self) -> None:
        [found] = compare(self._tasks(9, 1, 2.0), self._tasks(1, 9, 1.0))
        assert found.regressed == ("pass rate", "speedup")
        assert found.p_value is not None
        assert found.p_value < 0.01
        assert found.basis.startswith("9 of 10 passed, then 1 of 10; by chance with p = 0.0")

    def test_one_task_each_may_well_be_chance(self) -> None:
        [found] = compare(self._tasks(1, 0), self._tasks(0, 1))
        assert found.regressed == ("pass rate",)
        assert "may well be chance" in found.basis

    def test_an_op_in_one_of_them_alone(self) -> None:
        [found] = compare([], self._tasks(1, 0))
        assert (found.p_value, found.regressed, found.improved, found.basis) == (
            None,
            (),
            (),
            "only in one of them",
        )

    def test_fishers_exact_test(self) -> None:
        # By R: fisher.test(matrix(c(3, 1, 1, 3), 2))$p.value, and c(8, 2, 1, 9)
        assert fisher(3, 4, 1, 4) == pytest.approx(0.4857143)
        assert fisher(8, 10, 1, 10) == pytest.approx(0.005477, abs=1e-6)
        assert fisher(0, 5, 0, 9) == 1


class TestMeasurements:
    @pytest.mark.parametrize(
        ("text", "speedup"),
        [
            ('{"speedup": 1.25}', 1.25),
            ('{"speedup": "2.5"}', 2.5),
            ('{"time": 3, "nested": {"speedup": 9}}', None),
            ("base 3 ms, speedup: 1.25x", 1.25),
            ("Speed-up = 2e1", 20.0),
            ('{"speedup": true}', None),
            ('{"speedup": NaN}', None),
            ('{"speedup": -1}', None),
            ('{"speedup": 1e999}', None),
            ("[" * 100_000, None),
            ("", None),
        ],
        ids=range(11),
    )
    def test_a_speedup_however_it_was_told(self, text: str, speedup: float | None) -> None:
        assert speedup_in(text) == speedup
        assert isinstance(dict(profile_in(text)), dict)


class TestErrorLine:
    @pytest.mark.parametrize(
        ("log", "line"),
        [
            ("", ""),
            ("\n  \nall I say\n", "all I say"),
            ("compiling\na.cu(3): error: expected a ;\n1 error", "a.cu(3): error: expected a ;"),
            ("case 1\nTimeout (0:00:10)!", "Timeout (0:00:10)!"),
        ],
        ids=range(4),
    )
    def test_says_best_what_went_wrong(self, log: str, line: str) -> None:
        assert error_line(log) == line
