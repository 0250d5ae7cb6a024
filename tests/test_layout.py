"""From a record to the names of its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_kernel_trace.layout import AikgLayout, AkgAgentsLayout, DesignLayout, File, Layout
from otel_kernel_trace.record import Record, Verification

LAYOUTS = [DesignLayout(), AikgLayout(), AkgAgentsLayout()]
SOURCES = Verification("torch", "triton", reference="ref", implementation="impl", script="cmp")


def _paths(layout: Layout, record: Record, step: int = 3, copy: int = 1) -> dict[str, str]:
    return {"/".join((*file.folder, file.name)): file.text for file in layout.files(record, step, copy)}


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (DesignLayout(), "swish/I7_S03_swish_DO_CODER_"),
        (AikgLayout(), "swish/I7_S03_swish_DoCoder_"),
        (AkgAgentsLayout(), "swish/Iteration7_Step03_swish_coder_"),
    ],
)
def test_a_coders_parts(layout: Layout, expected: str) -> None:
    record = Record("swish", "7", "DO_CODER", parts={"prompt": "p", "reasoning": "", "result": "r"})
    assert _paths(layout, record) == {
        f"{expected}prompt.txt": "p",
        f"{expected}reasoning.txt": "",
        f"{expected}result.txt": "r",
    }


def test_design_writes_an_agents_three_parts_even_when_they_were_not_given() -> None:
    assert list(_paths(DesignLayout(), Record("o", "1", "FIX_DESIGNER")).values()) == ["", "", ""]


def test_akg_agents_writes_what_was_given_and_the_reply_unparsed() -> None:
    reply = '{"code": "c", "description": "d"}'
    record = Record("o", "1", "DO_DESIGNER", parts={"result": reply, "error_log": ""})
    assert _paths(AkgAgentsLayout(), record) == {
        "o/Iteration1_Step03_o_designer_result.txt": reply,
        "o/Iteration1_Step03_o_designer_error_log.txt": "",
    }


def test_the_result_is_the_code_and_the_comment() -> None:
    record = Record("o", "1", "DO_CODER", parts={"result": '{"code": "c", "description": "d"}'})
    assert _paths(DesignLayout(), record)["o/I1_S03_o_DO_CODER_result.txt"] == "c\n\n\n'''\nd\n'''"


@pytest.mark.parametrize(
    ("action_type", "name"),
    [("CHECK_DESIGNER", "CheckDesigner"), ("CHECK_CODER", "CheckCoder"), ("ANALYZE_ERROR", "AnalyzeError")],
)
@pytest.mark.parametrize("layout", [DesignLayout(), AikgLayout()])
def test_the_conductor_has_a_folder_and_no_empty_files(layout: Layout, action_type: str, name: str) -> None:
    record = Record("o", "1", action_type, parts={"prompt": "p", "reasoning": "", "result": '{"code": "x"}'})
    assert _paths(layout, record) == {
        f"o/conductor/I1_S03_o_{name}_prompt.txt": "p",
        f"o/conductor/I1_S03_o_{name}_result.txt": '{"code": "x"}',
    }


def test_a_second_judgement_of_a_step_has_names_of_its_own() -> None:
    record = Record("o", "1", "CHECK_CODER", parts={"prompt": "p"})
    assert list(_paths(DesignLayout(), record, copy=2)) == ["o/conductor/I1_S03_o_CheckCoder_prompt~2.txt"]


def test_a_verification_that_passed_has_no_file() -> None:
    assert _paths(DesignLayout(), Record("o", "1", "VERIFY", parts={"error_log": ""})) == {}


@pytest.mark.parametrize(("layout", "step"), [(DesignLayout(), "03"), (AikgLayout(), "02")])
def test_a_verification_has_a_folder_for_its_sources(layout: Layout, step: str) -> None:
    assert _paths(layout, Record("o", "1", "VERIFY", verification=SOURCES)) == {
        f"o/I1_S{step}_verify/o_torch.py": "ref",
        f"o/I1_S{step}_verify/o_triton.py": "impl",
        f"o/I1_S{step}_verify/verify_o.py": "cmp",
    }


def test_sources_written_in_the_same_thing_do_not_share_a_file() -> None:
    same = Verification("numpy", "numpy", reference="ref", implementation="impl")
    texts = _paths(DesignLayout(), Record("verify", "1", "VERIFY", verification=same))
    assert sorted(texts.values()) == ["impl", "ref"]
    clash = Verification("verify", "x", reference="ref", script="cmp")
    texts = _paths(DesignLayout(), Record("verify", "1", "VERIFY", verification=clash))
    assert sorted(texts.values()) == ["cmp", "ref"]


def test_agents_of_ones_own_keep_their_names_and_all_parts_have_files() -> None:
    record = Record("o", "1", "kernel_gen", parts={"result": "r", "plan": "1. tile"})
    assert _paths(DesignLayout(), record) == {
        "o/I1_S03_o_kernel_gen_result.txt": "r",
        "o/I1_S03_o_kernel_gen_plan.txt": "1. tile",
    }


def test_steps_have_two_digits_or_as_many_as_they_need() -> None:
    record = Record("o", "1", "x", parts={"result": "r"})
    assert list(_paths(DesignLayout(), record, step=7)) == ["o/I1_S07_o_x_result.txt"]
    assert list(_paths(DesignLayout(), record, step=1234)) == ["o/I1_S1234_o_x_result.txt"]


names = st.text(max_size=300) | st.sampled_from(["..", "a/b", "x" * 300, "矩" * 300, "CON", "1_S02_o"])


@given(op=names, task=names, action=names, part=names, step=st.integers(0, 2**31 - 1))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_whatever_the_names_files_stay_inside_and_their_steps_can_be_read(
    layout: Layout, op: str, task: str, action: str, part: str, step: int
) -> None:
    record = Record(op, task, action, parts={part: "x"}, verification=SOURCES)
    for file in layout.files(record, step):
        assert file.folder[0] == layout.folder(op)[0]
        for component in (*file.folder, file.name):
            assert component not in ("", ".", "..")
            assert not set(component) & {"/", "\0"}
            assert len(component.encode()) <= 255
    written = [file.name for file in layout.files(record, step) if file.folder == layout.folder(op)]
    assert list(layout.steps_among(written, op, task)) == [step] * len(written)


@given(
    names=st.lists(st.tuples(names, names), min_size=2, max_size=2, unique=True),
    step=st.integers(0, 99),
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_tasks_never_share_a_file(layout: Layout, names: list[tuple[str, str]], step: int) -> None:
    first, second = (
        {
            (file.folder, file.name)
            for file in layout.files(Record(op, task, "VERIFY", parts={"error_log": "x"}), step)
        }
        for op, task in names
    )
    assert first.isdisjoint(second)


def test_other_entries_of_a_folder_have_no_step() -> None:
    layout = DesignLayout()
    others = ["conductor", "I12_S01_o_DO_CODER_prompt.txt", "I1_Sxx_o", "notes.txt", "I1_S5_x", "I1_S²²_x"]
    assert list(layout.steps_among(others, "o", "1")) == []
    assert list(layout.steps_among([*others, "I1_S07_verify", "I1_S123_o_x"], "o", "1")) == [7, 123]


def test_a_fourth_layout_is_one_class() -> None:
    class FlatLayout(Layout):
        name = "flat_for_test"

        def files(self, record: Record, step: int, copy: int = 1) -> list[File]:
            return [
                File(part, (), f"{record.op_name}-{step}-{part}", text) for part, text in record.parts.items()
            ]

        def steps_among(self, entries: Iterable[str], op_name: str, task_id: str) -> Iterator[int]:
            return iter(())

    assert Layout.by_name["flat_for_test"] is FlatLayout
    del Layout.by_name["flat_for_test"]
