"""Which step an action has on disk."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path

import pytest

from otel_kernel_trace.layout import DesignLayout
from otel_kernel_trace.record import Record
from otel_kernel_trace.steps import StepsAsGiven, StepsOnDisk
from otel_kernel_trace.store import Store


@pytest.fixture
def steps(tmp_path: Path) -> StepsOnDisk:
    return StepsOnDisk(Store(str(tmp_path)), DesignLayout())


def _record(step: int | None, trace_id: int = 1, task: str = "1") -> Record:
    return Record("o", task, "DO_CODER", step=step, trace_id=trace_id)


def test_a_free_step_is_given_as_asked(steps: StepsOnDisk) -> None:
    assert [steps.claim(_record(step)) for step in (1, 2, 5)] == [1, 2, 5]
    assert [steps.claim(_record(step)) for step in (4, 3)] == [4, 3]


def test_a_taken_step_gives_the_one_after_the_last(steps: StepsOnDisk) -> None:
    assert [steps.claim(_record(step)) for step in (1, 2, 1, 2, None)] == [1, 2, 3, 4, 5]


def test_a_step_of_0_is_a_step(steps: StepsOnDisk) -> None:
    assert [steps.claim(_record(step)) for step in (0, 1, 0)] == [0, 1, 2]


def test_tasks_are_counted_apart(steps: StepsOnDisk) -> None:
    assert [steps.claim(_record(None, task=task)) for task in ("1", "2", "1", "1_S05_o")] == [1, 1, 2, 1]


def test_a_reserved_step_waits_for_its_record(steps: StepsOnDisk) -> None:
    assert steps.reserve("o", "1") == 1
    assert steps.reserve("o", "1") == 2
    assert steps.claim(_record(None)) == 3
    assert [steps.claim(_record(step)) for step in (2, 1, 1)] == [2, 1, 4]


def test_others_do_not_get_what_one_passed_over(steps: StepsOnDisk, tmp_path: Path) -> None:
    others = StepsOnDisk(Store(str(tmp_path)), DesignLayout())
    assert steps.claim(_record(3)) == 3
    assert others.claim(_record(1, trace_id=2)) == 4
    assert steps.claim(_record(1)) == 1


def test_a_run_in_several_processes_gets_what_any_of_them_passed_over(
    steps: StepsOnDisk, tmp_path: Path
) -> None:
    others = StepsOnDisk(Store(str(tmp_path)), DesignLayout())
    assert steps.claim(_record(5)) == 5
    assert [others.claim(_record(step)) for step in (2, 4, 2)] == [2, 4, 6]
    assert [steps.claim(_record(step)) for step in (1, 3, 3)] == [1, 3, 7]
    assert steps.claim(_record(8)) == 8


def test_what_was_passed_over_is_remembered_within_bounds(steps: StepsOnDisk, tmp_path: Path) -> None:
    for step in range(2, 400, 2):
        assert steps.claim(_record(step)) == step
    assert (tmp_path / ".kernel_trace/steps/o/1").stat().st_size < 8192
    assert steps.claim(_record(397)) == 397
    assert steps.claim(_record(1)) == 399


@pytest.mark.parametrize("rubbish", [b"x" * 9000, b"zz 1 2\n", b"1 2\n\n", b"0 1 " + b"9" * 200 + b"\n"])
def test_rubbish_behind_the_number_is_passed_over(steps: StepsOnDisk, tmp_path: Path, rubbish: bytes) -> None:
    steps.claim(_record(3))
    counter = tmp_path / ".kernel_trace/steps/o/1"
    counter.write_bytes(counter.read_bytes()[:21] + rubbish)
    assert steps.claim(_record(1)) == 4
    assert steps.claim(_record(9)) == 9
    assert steps.claim(_record(5)) == 5


def test_the_judged_step_is_where_the_action_went(steps: StepsOnDisk) -> None:
    steps.claim(_record(1, trace_id=1))
    assert steps.claim(_record(1, trace_id=2)) == 2
    assert steps.judged(_record(1, trace_id=2)) == 2
    assert steps.judged(_record(1, trace_id=1)) == 1
    assert steps.judged(_record(None)) == 2


def test_many_tasks_take_bounded_memory_and_files(steps: StepsOnDisk) -> None:
    before = len(os.listdir("/dev/fd"))
    for task in range(1500):
        steps.claim(_record(1, task=str(task)))
    assert len(os.listdir("/dev/fd")) - before < 60
    for task in range(1500):
        steps.reserve("o", str(task))
    assert len(steps._reserved) <= 1024


def test_a_process_that_was_stopped_while_it_counted_holds_nobody_up_for_long(
    steps: StepsOnDisk, tmp_path: Path
) -> None:
    steps.claim(_record(1))
    with open(tmp_path / ".kernel_trace" / "steps" / "o" / "1", "rb") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        begin = time.monotonic()
        assert steps.claim(_record(2)) == 2
        assert time.monotonic() - begin < 5


def test_a_counter_that_was_damaged_is_read_from_the_tree(steps: StepsOnDisk, tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "I1_S41_o_DO_CODER_prompt.txt").touch()
    assert steps.claim(_record(1)) == 42
    (tmp_path / ".kernel_trace" / "steps" / "o" / "1").write_text("scribble")
    assert steps.claim(_record(1)) == 42  # nothing was written under 42


def test_steps_as_given_are_given_and_counted_where_they_are_not() -> None:
    steps = StepsAsGiven()
    assert steps.reserve("o", "1") is None
    assert [steps.claim(_record(step)) for step in (3, 1, 1, None, 2)] == [3, 1, 1, 4, 2]
    assert steps.claim(_record(2), was_taken=True) == 5
    assert steps.judged(_record(None)) == 5
    assert steps.judged(_record(2)) == 2


def _old(folder: Path, *entries: str) -> None:
    folder.mkdir(exist_ok=True)
    for entry in entries:
        (folder / entry).touch()


def test_records_that_were_copied_in_later_are_counted(steps: StepsOnDisk, tmp_path: Path) -> None:
    steps.claim(_record(1, task="2"))
    _old(tmp_path / "o", "I1_S01_o_DO_DESIGNER_prompt.txt", "I1_S02_o_DO_CODER_prompt.txt")
    assert steps.claim(_record(1)) == 3


def test_a_counter_that_was_removed_is_read_from_the_tree(steps: StepsOnDisk, tmp_path: Path) -> None:
    assert steps.claim(_record(1)) == 1
    _old(tmp_path / "o", "I1_S01_o_DO_CODER_prompt.txt")
    (tmp_path / ".kernel_trace" / "steps" / "o" / "1").unlink()
    assert steps.claim(_record(1)) == 2
    assert StepsOnDisk(Store(str(tmp_path)), DesignLayout()).reserve("o", "1") == 3


def test_all_counters_may_be_removed_meanwhile(steps: StepsOnDisk, tmp_path: Path) -> None:
    assert steps.claim(_record(1)) == 1
    _old(tmp_path / "o", "I1_S01_o_DO_CODER_prompt.txt")
    shutil.rmtree(tmp_path / ".kernel_trace")
    assert steps.claim(_record(2)) == 2
    assert steps.claim(_record(1, trace_id=2)) == 3


def test_a_step_that_is_far_ahead_is_not_taken(steps: StepsOnDisk) -> None:
    assert steps.claim(_record(2**31 - 1)) == 1
    assert steps.reserve("o", "1") == 2


def test_runs_do_not_fill_each_others_gaps(steps: StepsOnDisk) -> None:
    assert [steps.claim(_record(step, trace_id=1)) for step in (1, 2, 4)] == [1, 2, 4]
    assert [steps.claim(_record(step, trace_id=2)) for step in (1, 2, 3, 4)] == [5, 6, 7, 8]
    assert steps.claim(_record(3, trace_id=1)) == 3


def test_spans_without_parents_are_of_any_run(steps: StepsOnDisk) -> None:
    def root(trace_id: int) -> Record:
        return Record("o", "1", "DO_CODER", step=1, trace_id=trace_id, is_root=True)

    assert steps.claim(root(1)) == 1
    assert steps.claim(root(2)) == 2
    assert steps.judged(root(3)) == 2
