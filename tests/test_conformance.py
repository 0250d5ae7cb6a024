"""The recorded calls, replayed, give the recorded tree byte for byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from otel_kernel_trace import ActionType, Trace
from tests.tree import tree

_RECORDED = Path(__file__).with_name("conformance")
_CALLS = json.loads((_RECORDED / "every_action.calls.json").read_text(encoding="utf-8"))
_AIKG_TREE = json.loads((_RECORDED / "every_action.aikg.tree.json").read_text(encoding="utf-8"))

_NAMES = {
    member.value: member.name for member in ActionType if not member.name.startswith(("CHECK", "ANALYZE"))
}


def _replay(log_dir: Path, layout: str) -> Trace:
    trace = Trace("exp_add_op", "123", log_dir, layout=layout)
    for method, arguments in _CALLS:
        action_type = ActionType[arguments["action_type"]]
        getattr(trace, method)(**{**arguments, "action_type": action_type})
    return trace


def _under_the_documents_names(path: str) -> str:
    return re.sub(r"_op_(\w+?)_(?=prompt|reasoning|result|error_log)", _renamed, path)


def _renamed(match: re.Match[str]) -> str:
    return f"_op_{_NAMES.get(match[1], match[1])}_"


def test_layout_aikg_is_what_the_first_implementation_wrote(tmp_path: Path) -> None:
    _replay(tmp_path, "aikg")
    assert tree(tmp_path) == _AIKG_TREE


def test_layout_design_is_the_same_under_the_documents_names(tmp_path: Path) -> None:
    _replay(tmp_path, "design")
    assert tree(tmp_path) == {_under_the_documents_names(path): text for path, text in _AIKG_TREE.items()}
    assert "exp_add_op/I123_S01_exp_add_op_DO_DESIGNER_prompt.txt" in tree(tmp_path)


@pytest.mark.parametrize("layout", ["aikg", "design"])
def test_the_program_finds_its_records_as_it_made_them(tmp_path: Path, layout: str) -> None:
    trace = _replay(tmp_path, layout)
    made = [arguments for method, arguments in _CALLS if method != "insert_conductor_record"]
    assert len(trace.trace_list) == len(made)
    for record, arguments in zip(trace.trace_list, made, strict=True):
        assert record.action_type is ActionType[arguments["action_type"]]
        assert record.result == arguments.get("res", arguments.get("verify_res"))
        assert record.prompt == arguments.get("prompt", "")
        assert record.reasoning == arguments.get("reasoning", "")
        assert record.error_log == arguments.get("verify_log", "")
        assert record.profile == arguments.get("profile", "")
