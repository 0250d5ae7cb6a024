"""The actions of a task, and which agent performs each."""

from __future__ import annotations

from enum import Enum


class ActionType(Enum):
    """What an action did.

    The attribute ``kernel_trace.action_type`` and the file names of layout
    ``design`` hold the member's *name*; layout ``aikg`` uses its *value*, as the
    first implementation (AIKG, 2025) did.
    """

    DO_DESIGNER = "DoDesigner"
    FIX_DESIGNER = "FixDesigner"
    DO_CODER = "DoCoder"
    FIX_CODER = "FixCoder"
    DO_CODER_DIRECT = "DoCoderDirect"
    VERIFY = "Verify"
    EXIT = "Exit"
    CHECK_DESIGNER = "CheckDesigner"
    CHECK_CODER = "CheckCoder"
    ANALYZE_ERROR = "AnalyzeError"


DESIGNER_ACTIONS = frozenset({ActionType.DO_DESIGNER, ActionType.FIX_DESIGNER})
CODER_ACTIONS = frozenset({ActionType.DO_CODER, ActionType.FIX_CODER, ActionType.DO_CODER_DIRECT})
CONDUCTOR_ACTIONS = frozenset({ActionType.CHECK_DESIGNER, ActionType.CHECK_CODER, ActionType.ANALYZE_ERROR})


_BY_NAME = dict(ActionType.__members__)


def action_named(name: str) -> ActionType | None:
    """The member called ``name``, or None for an agent that the user named."""
    return _BY_NAME.get(name)


def agent_of(action: ActionType) -> str:
    """The agent that performs actions of this type."""
    if action in DESIGNER_ACTIONS:
        return "designer"
    if action in CODER_ACTIONS:
        return "coder"
    return "verifier" if action is ActionType.VERIFY else "conductor"


def check_of(judged: ActionType) -> ActionType:
    """The Conductor's check for an action of type ``judged``.

    Raises:
        ValueError: no check judges actions of that type.
    """
    if judged in DESIGNER_ACTIONS:
        return ActionType.CHECK_DESIGNER
    if judged in CODER_ACTIONS:
        return ActionType.CHECK_CODER
    if judged is ActionType.VERIFY:
        return ActionType.ANALYZE_ERROR
    raise ValueError(f"the Conductor judges Designer, Coder and Verifier actions, not {judged}")
