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


class Agent(Enum):
    """Who performs an action."""

    DESIGNER = "designer"
    CODER = "coder"
    VERIFIER = "verifier"
    CONDUCTOR = "conductor"


_BY_NAME = dict(ActionType.__members__)
_AGENTS = {
    "DO_DESIGNER": Agent.DESIGNER,
    "FIX_DESIGNER": Agent.DESIGNER,
    "DO_CODER": Agent.CODER,
    "FIX_CODER": Agent.CODER,
    "DO_CODER_DIRECT": Agent.CODER,
    "VERIFY": Agent.VERIFIER,
    "CHECK_DESIGNER": Agent.CONDUCTOR,
    "CHECK_CODER": Agent.CONDUCTOR,
    "ANALYZE_ERROR": Agent.CONDUCTOR,
}
_CHECKS = {
    Agent.DESIGNER: ActionType.CHECK_DESIGNER,
    Agent.CODER: ActionType.CHECK_CODER,
    Agent.VERIFIER: ActionType.ANALYZE_ERROR,
}


def action_named(name: str) -> ActionType | None:
    """The member called ``name``, or None for an action that the user named."""
    return _BY_NAME.get(name)


def agent_of(name: str) -> Agent | None:
    """Who performs the action called ``name``; None for an agent of the user's own, and for ``EXIT``."""
    return _AGENTS.get(name)


def check_of(name: str) -> ActionType | None:
    """The Conductor's check of the action called ``name``; None where there is none."""
    agent = _AGENTS.get(name)
    return None if agent is None else _CHECKS.get(agent)
