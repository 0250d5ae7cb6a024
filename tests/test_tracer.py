"""Spans around live work."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry import trace as trace_api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from otel_kernel_trace import ActionType, KernelTracer, KernelTraceSpanExporter
from tests.spans import provider_of
from tests.tree import tree


@pytest.fixture
def seen() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(tmp_path: Path, seen: InMemorySpanExporter) -> Iterator[TracerProvider]:
    with provider_of(KernelTraceSpanExporter(tmp_path), seen) as provider:
        yield provider


def _named(seen: InMemorySpanExporter, name: str) -> ReadableSpan:
    [span] = [span for span in seen.get_finished_spans() if span.name == name]
    return span


def test_a_whole_task(tmp_path: Path, provider: TracerProvider, seen: InMemorySpanExporter) -> None:
    with KernelTracer("o", "1", provider) as tracer:
        with tracer.designer(prompt="sketch it") as design:
            design.record(result="a sketch", reasoning="hm")
        with tracer.conductor(prompt="is it right?") as check:
            check.record("yes")
        with tracer.coder(prompt="write it") as code:
            code.record('{"code": "c", "description": "d"}', plan="1. tile")
        with tracer.verifier(framework="numpy", impl_type="numba") as verification:
            sources = {"reference": "r", "implementation": "i", "script": "s"}
            verification.record(False, "boom\n", {"speedup": 0.5}, **sources)
        with tracer.conductor(prompt="why?", judges=verification) as analysis:
            analysis.record("because")
        with tracer.coder(action_type=ActionType.FIX_CODER) as fix:
            fix.record(prompt="mend it", result="fixed")
        with tracer.action("tuner") as tuner:
            tuner.record("block 128")
    assert tree(tmp_path) == {
        "o/I1_S01_o_DO_DESIGNER_prompt.txt": "sketch it",
        "o/I1_S01_o_DO_DESIGNER_reasoning.txt": "hm",
        "o/I1_S01_o_DO_DESIGNER_result.txt": "a sketch",
        "o/conductor/I1_S01_o_CheckDesigner_prompt.txt": "is it right?",
        "o/conductor/I1_S01_o_CheckDesigner_result.txt": "yes",
        "o/I1_S02_o_DO_CODER_prompt.txt": "write it",
        "o/I1_S02_o_DO_CODER_reasoning.txt": "",
        "o/I1_S02_o_DO_CODER_result.txt": "c\n\n\n'''\nd\n'''",
        "o/I1_S02_o_DO_CODER_plan.txt": "1. tile",
        "o/I1_S03_o_VERIFY_error_log.txt": "boom\n",
        "o/I1_S03_verify/o_numpy.py": "r",
        "o/I1_S03_verify/o_numba.py": "i",
        "o/I1_S03_verify/verify_o.py": "s",
        "o/conductor/I1_S03_o_AnalyzeError_prompt.txt": "why?",
        "o/conductor/I1_S03_o_AnalyzeError_result.txt": "because",
        "o/I1_S04_o_FIX_CODER_prompt.txt": "mend it",
        "o/I1_S04_o_FIX_CODER_reasoning.txt": "",
        "o/I1_S04_o_FIX_CODER_result.txt": "fixed",
        "o/I1_S05_o_tuner_result.txt": "block 128",
    }
    verified = _named(seen, "VERIFY")
    assert verified.attributes is not None
    assert verified.attributes["kernel_trace.verify.result"] == "False"
    assert verified.attributes["kernel_trace.verify.profile"] == '{"speedup": 0.5}'
    assert verified.status.status_code is StatusCode.ERROR
    assert _named(seen, "DO_CODER").status.status_code is StatusCode.UNSET


def test_durations_are_those_of_the_work_and_the_root_spans_all(
    provider: TracerProvider, seen: InMemorySpanExporter
) -> None:
    with KernelTracer("o", "1", provider) as tracer, tracer.coder():
        time.sleep(0.02)
    coder, root = _named(seen, "DO_CODER"), _named(seen, "kernel_task")
    assert coder.start_time is not None
    assert coder.end_time is not None
    assert root.start_time is not None
    assert root.end_time is not None
    assert coder.end_time - coder.start_time >= 20_000_000
    assert root.start_time <= coder.start_time < coder.end_time <= root.end_time
    assert root.parent is None
    assert coder.parent is not None
    assert root.context is not None
    assert coder.parent.span_id == root.context.span_id


def test_spans_inside_and_outside_keep_their_places(
    provider: TracerProvider, seen: InMemorySpanExporter
) -> None:
    outer_tracer = provider.get_tracer("program")
    with outer_tracer.start_as_current_span("program"), KernelTracer("o", "1", provider) as tracer:
        with tracer.coder(), outer_tracer.start_as_current_span("chat"), tracer.action("tool"):
            pass
        with tracer.coder(action_type=ActionType.FIX_CODER):
            pass
    parents = {span.name: span.parent.span_id if span.parent else None for span in seen.get_finished_spans()}
    ids = {span.name: span.context.span_id for span in seen.get_finished_spans() if span.context}
    assert parents == {
        "program": None,
        "kernel_task": ids["program"],
        "DO_CODER": ids["kernel_task"],
        "chat": ids["DO_CODER"],
        "tool": ids["chat"],
        "FIX_CODER": ids["kernel_task"],
    }


def test_an_exception_leaves_its_mark_and_passes_on(
    tmp_path: Path, provider: TracerProvider, seen: InMemorySpanExporter
) -> None:
    tracer = KernelTracer("o", "1", provider)
    with pytest.raises(ZeroDivisionError), tracer.designer(prompt="p") as action:
        action.record(reasoning="so far")
        _ = 1 / 0
    span = _named(seen, "DO_DESIGNER")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "ZeroDivisionError: division by zero"
    assert [event.name for event in span.events] == ["exception", "kernel_trace.diagnostic"]
    written = tree(tmp_path)
    assert written["o/I1_S01_o_DO_DESIGNER_prompt.txt"] == "p"
    assert written["o/I1_S01_o_DO_DESIGNER_reasoning.txt"] == "so far"
    assert "ZeroDivisionError" in written["o/I1_S01_o_DO_DESIGNER_error_log.txt"]


def test_asyncio_keeps_actions_apart(
    tmp_path: Path, provider: TracerProvider, seen: InMemorySpanExporter
) -> None:
    tracer = KernelTracer("o", "1", provider)
    current: dict[int, bool] = {}

    async def work(number: int) -> None:
        with tracer.coder(prompt=str(number)) as action:
            await asyncio.sleep(0.01 * (5 - number))
            current[number] = trace_api.get_current_span() is action.span
            action.record(str(number))

    async def cancelled() -> None:
        with tracer.action("slow", prompt="p"):
            await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(cancelled())
        await asyncio.gather(*(work(number) for number in range(5)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert current == dict.fromkeys(range(5), True)
    written = tree(tmp_path)
    for path, text in written.items():
        if path.endswith("CODER_prompt.txt"):
            assert written[path.replace("prompt", "result")] == text
    assert len([path for path in written if path.endswith("CODER_prompt.txt")]) == 5
    assert "CancelledError" in (_named(seen, "slow").status.description or "")


def test_threads_number_their_actions_apart(tmp_path: Path, provider: TracerProvider) -> None:
    tracer = KernelTracer("o", "1", provider)

    def work(number: int) -> int:
        with tracer.coder(prompt=str(number)) as action:
            action.record(str(number))
            return action.step

    with ThreadPoolExecutor(8) as pool:
        steps = list(pool.map(work, range(40)))
    assert sorted(steps) == list(range(1, 41))
    written = tree(tmp_path)
    for number, step in enumerate(steps):
        assert written[f"o/I1_S{step:02d}_o_DO_CODER_result.txt"] == str(number)


def test_actions_of_the_wrong_kind_are_told(provider: TracerProvider) -> None:
    tracer = KernelTracer("o", "1", provider)
    with pytest.raises(ValueError, match="Designer"):
        tracer.designer(action_type=ActionType.DO_CODER)
    with pytest.raises(ValueError, match="Coder"):
        tracer.coder(action_type=ActionType.VERIFY)
    with pytest.raises(ValueError, match="Coder"):
        tracer.coder(action_type="DO_CODER")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValueError, match="no action yet"), tracer.conductor():
        pass
    with tracer.action("tuner") as tuner:
        pass
    with pytest.raises(ValueError, match="tuner"), tracer.conductor(judges=tuner):
        pass


def test_a_root_without_a_with_block_ends_with_its_tracer(
    provider: TracerProvider, seen: InMemorySpanExporter
) -> None:
    tracer = KernelTracer("o", "1", provider)
    with tracer.coder():
        pass
    assert "kernel_task" not in {span.name for span in seen.get_finished_spans()}
    del tracer
    assert "kernel_task" in {span.name for span in seen.get_finished_spans()}


def test_without_any_set_up_nothing_happens() -> None:
    with KernelTracer("o", "1") as tracer, tracer.coder(prompt="p") as action:
        action.record("r")
    assert not action.span.is_recording()


@pytest.mark.parametrize("inside", [True, False])
def test_in_a_second_run_the_conductor_follows_the_action_that_it_judges(
    tmp_path: Path, provider: TracerProvider, inside: bool
) -> None:
    for run in ("first", "second"):
        with KernelTracer("o", "1", provider) as tracer:
            with tracer.coder(prompt=run) as action:
                if inside:  # and so its span ends before the action's
                    with tracer.conductor(judges=action) as verdict:
                        verdict.record(run)
            if not inside:
                with tracer.conductor() as verdict:
                    verdict.record(run)
    written = tree(tmp_path)
    for step, run in ((1, "first"), (2, "second")):
        assert written[f"o/I1_S0{step}_o_DO_CODER_prompt.txt"] == run
        assert written[f"o/conductor/I1_S0{step}_o_CheckCoder_result.txt"] == run


def test_two_tracers_of_one_task_in_one_trace_keep_their_judgements_apart(
    tmp_path: Path, provider: TracerProvider
) -> None:
    with provider.get_tracer("program").start_as_current_span("program"):
        tracers = [KernelTracer("o", "1", provider) for _ in range(2)]
        actions = []
        for number, tracer in enumerate(tracers):
            with tracer.coder(prompt=str(number)) as action:
                actions.append(action)
        for number, tracer in enumerate(tracers):
            with tracer.conductor(judges=actions[number]) as verdict:
                verdict.record(str(number))
    written = tree(tmp_path)
    for number in range(2):
        assert written[f"o/I1_S0{number + 1}_o_DO_CODER_prompt.txt"] == str(number)
        assert written[f"o/conductor/I1_S0{number + 1}_o_CheckCoder_result.txt"] == str(number)


def test_the_conductors_span_links_to_the_one_it_judges(
    provider: TracerProvider, seen: InMemorySpanExporter
) -> None:
    tracer = KernelTracer("o", "1", provider)
    with tracer.verifier() as verification:
        verification.record(True)
    with tracer.conductor():
        pass
    [link] = _named(seen, "ANALYZE_ERROR").links
    assert link.context == verification.span.get_span_context()


def test_an_exception_without_a_text_passes_on(provider: TracerProvider, seen: InMemorySpanExporter) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    with pytest.raises(MuteError), KernelTracer("o", "1", provider).coder():
        raise MuteError
    assert (_named(seen, "DO_CODER").status.description or "").startswith(
        "MuteError: <MuteError: RuntimeError"
    )


def test_actions_that_are_garbage_are_collected_at_any_instant(tmp_path: Path) -> None:
    """The collector ends their spans, also in the middle of writing another, in the same thread."""
    exporter = KernelTraceSpanExporter(tmp_path)

    async def abandoned(tracer: KernelTracer) -> None:
        with tracer.coder(prompt="abandoned"):
            await asyncio.get_running_loop().create_future()

    async def live(tracer: KernelTracer) -> None:
        with tracer.coder(prompt="live") as action:
            await asyncio.sleep(0)
            action.record("r")

    async def main(provider: TracerProvider) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        for number in range(1500):
            tracer = KernelTracer(f"op{number % 10}", str(number), provider)
            asyncio.ensure_future(abandoned(tracer))  # noqa: RUF006 - nobody keeps it
            await live(tracer)

    with provider_of(exporter) as provider:
        asyncio.run(main(provider))
    counts = exporter.counts
    assert counts.failed == 0
    texts = list(tree(tmp_path).values())
    assert texts.count("live") == 1500
    assert texts.count("abandoned") == counts.written - 1500 > 0


class TestWrongUse:
    def test_says_what_would_be_right(self) -> None:
        tracer = KernelTracer("swish", "1", TracerProvider(shutdown_on_exit=False))
        with pytest.raises(ValueError, match=r"'FIX_CODER' is no Coder's action.* ActionType.FIX_CODER"):
            tracer.coder(action_type="FIX_CODER")  # type: ignore[arg-type]  # that is the point
        with pytest.raises(ValueError, match=r"no Designer's action.* ActionType.FIX_DESIGNER"):
            tracer.designer(action_type=ActionType.VERIFY)
        with pytest.raises(TypeError, match="not 'VERIFY'"):
            tracer.conductor(judges="VERIFY").__enter__()  # type: ignore[arg-type]  # likewise
        for steps in ("x", 1.5, -1):
            with pytest.raises(ValueError, match="steps is a number of steps"):
                tracer.headers(steps=steps)  # type: ignore[arg-type]  # likewise

    def test_without_a_provider_is_told_once(self) -> None:
        script = """
from otel_kernel_trace import KernelTracer
for task in "12":
    with KernelTracer("swish", task) as tracer:
        with tracer.coder(prompt="asked") as action:
            action.record(result="answered")
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stderr.count("\n") == 1
        assert "configure()" in done.stderr
