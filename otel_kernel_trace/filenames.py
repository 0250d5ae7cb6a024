"""Names of files read backwards: which action's they are, by the rule of the layout that they look like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from otel_kernel_trace import attributes
from otel_kernel_trace.actions import ActionType, Agent, agent_of
from otel_kernel_trace.layout import AikgLayout, AkgAgentsLayout, DesignLayout, Folder
from otel_kernel_trace.names import safe_name
from otel_kernel_trace.record import Record

Numbered = DesignLayout | AikgLayout | AkgAgentsLayout
"""The layouts whose names say all that is needed."""

NUMBERED: Final[dict[str, Numbered]] = {
    layout.name: layout for layout in (DesignLayout(), AikgLayout(), AkgAgentsLayout())
}
CONDUCTOR: Final = "conductor"
"""The folder of an op's judgements."""

_PARTS: Final = (
    attributes.PROMPT,
    attributes.REASONING,
    attributes.RESULT,
    attributes.ERROR_LOG,
)
_FRAMEWORKS: Final = frozenset(
    {"jax", "mindspore", "mlx", "numpy", "paddle", "pytorch", "reference", "tensorflow", "torch"}
)
_AKG_ACTIONS: Final = {
    "conductor_decision": ActionType.ANALYZE_ERROR.name,  # all its checks are called so
    "verifier": ActionType.VERIFY.name,
}

_UNTOLD: Final = object()

_COPY = re.compile(r"~([0-9]{1,6})$")
_SOURCE = re.compile(r"(?:~(implementation|script))?(?:~[0-9]{1,6})?\.py$")


@dataclass(frozen=True, slots=True)
class Place:
    """Where files of one step of a task are."""

    folder: Folder
    task: str
    """As it stands in the names."""
    step: int


class Named(NamedTuple):
    """A file by what stands in its name behind its place."""

    rest: str
    """Action and part, as ``DO_CODER_prompt``."""
    copy: int
    """Which of several judgements of its step it is of."""
    path: str


class Source(NamedTuple):
    """A file in a verification's folder."""

    attribute: str
    path: str
    told: dict[str, str]
    """Attributes that its name tells."""


def layout_of_names(names: Iterable[str]) -> Numbered:
    """The layout that the names in an op's folder look like."""
    names = list(names)
    if any(name.startswith(AkgAgentsLayout.task_prefix) for name in names):
        return NUMBERED[AkgAgentsLayout.name]
    values = tuple(
        f"_{action.value}_" for action in ActionType if agent_of(action.name) is not Agent.CONDUCTOR
    )
    if any(value in name for name in names for value in values):
        return NUMBERED[AikgLayout.name]
    return NUMBERED[DesignLayout.name]


def read_name(layout: Numbered, folder: Folder, name: str) -> tuple[Place, Named] | None:
    """Where a text file belongs; None for a name of nobody's."""
    row = _row(layout, folder[0], name)
    if row is None:
        return None
    rest = name[row.end() :].removesuffix(".txt")
    copy = _COPY.search(rest)
    if copy:
        rest = rest[: copy.start()]
    number = int(copy[1]) if copy else 1
    return Place(folder, row[1], int(row[2])), Named(rest, number, "/".join((*folder, name)))


def read_verification(layout: Numbered, folder: Folder) -> Place | None:
    """Where a verification's folder belongs; None for another folder."""
    row = re.fullmatch(rf"{layout.task_prefix}(.+?)_{layout.step_prefix}([0-9]{{2,10}})_verify", folder[-1])
    return Place(folder[:-1], row[1], int(row[2]) + 1 - layout.verify_step(1)) if row else None


def place_of(layout: Numbered, record: Record, step: int) -> tuple[Place, str] | None:
    """Where an action's files are, and what their names have behind that and before the part."""
    folder, beginning = layout.beginning(record, step)
    row = _row(layout, folder[0], beginning)
    return (Place(folder, row[1], int(row[2])), beginning[row.end() :]) if row else None


def _row(layout: Numbered, op_folder: str, name: str) -> re.Match[str] | None:
    return re.match(
        rf"{layout.task_prefix}(.+?)_{layout.step_prefix}([0-9]{{2,10}})_{re.escape(op_folder)}_", name
    )


def split(layout: Numbered, files: Sequence[Named]) -> list[tuple[str, str, Named]]:
    """Of the files at one place the action types, and the attributes whose texts they hold.

    Agents that a layout does not know by name may have names and parts of several words: what
    their files begin with in common is the agent's name, else what comes before a part that
    all agents have.
    """
    labels = (
        _AKG_ACTIONS
        if isinstance(layout, AkgAgentsLayout)
        else {layout.action(action.name): action.name for action in ActionType}
    )
    by_length = sorted(labels, key=len, reverse=True)
    found, strange = [], []
    rests = {file.rest for file in files}
    for file in files:
        label = next((label for label in by_length if file.rest.startswith(f"{label}_")), None)
        is_writer = label is not None and agent_of(labels[label]) in (Agent.DESIGNER, Agent.CODER)
        if label is None or (is_writer and not any(f"{label}_{part}" in rests for part in _PARTS)):
            strange.append(file)
        else:
            found.append((labels[label], attribute_of(file.rest[len(label) + 1 :]), file))
    # A step has one action, as a rule.
    common = _common_words([file.rest for file in strange]) if len(strange) > 1 else ""
    agents = (
        {common}
        if common
        else {
            file.rest[: -len(part) - 1]
            for file in strange
            for part in _PARTS
            if file.rest.endswith(f"_{part}")
        }
    )
    for file in strange:
        agent = max((agent for agent in agents if file.rest.startswith(f"{agent}_")), key=len, default="")
        if not agent:
            agent = file.rest.rpartition("_")[0]
        part = file.rest[len(agent) + 1 :]
        if agent and part:
            found.append((true_name(agent), attribute_of(part), file))
    return found


def _common_words(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    first, last = min(texts), max(texts)
    length = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length].rpartition("_")[0]


def attribute_of(part: str) -> str:
    """The attribute whose text a file holds that is called by this part."""
    return attributes.INCOMPLETE if part == "~incomplete" else attributes.PART_PREFIX + true_name(part)


def read_sources(op: str, folder: Folder, names: Iterable[str], framework: object = _UNTOLD) -> list[Source]:
    """What the files in a verification's folder are; a name alone does not always say it.

    Args:
        op: as it stands in names.
        folder: of the verification.
        names: of the files in it.
        framework: what the reference is written in, None where that was not given; left out
            where nothing is known of it.
    """
    if framework is not _UNTOLD:
        return [_source_of(op, folder, name, framework) for name in names]
    in_order = sorted(names, key=lambda name: name.rpartition("_")[2].removesuffix(".py") not in _FRAMEWORKS)
    found: list[Source] = []
    has_reference = False
    for name in in_order:
        written_in = name.removeprefix(f"{op}_")
        marked = _SOURCE.search(written_in)
        if name == f"verify_{op}.py":
            role, of_role = attributes.VERIFY_SOURCE_SCRIPT, None
        elif has_reference or (marked and marked[1]) or written_in == "implementation.py":
            role, of_role = attributes.VERIFY_SOURCE_IMPLEMENTATION, attributes.VERIFY_IMPL_TYPE
        elif len(in_order) > 1 or written_in.removesuffix(".py") in _FRAMEWORKS:
            role, of_role = attributes.VERIFY_SOURCE_REFERENCE, attributes.VERIFY_FRAMEWORK
            has_reference = True
        else:
            role, of_role = attributes.VERIFY_SOURCE_IMPLEMENTATION, attributes.VERIFY_IMPL_TYPE
        told = {of_role: true_name(written_in[: marked.start()])} if of_role and marked else {}
        found.append(Source(role, "/".join((*folder, name)), told))
    return found


def _source_of(op: str, folder: Folder, name: str, framework: object) -> Source:
    reference = f"{op}_{safe_name('reference' if framework is None else attributes.text(framework))}.py"
    role = attributes.VERIFY_SOURCE_IMPLEMENTATION
    if name == f"verify_{op}.py":
        role = attributes.VERIFY_SOURCE_SCRIPT
    elif name == reference:  # where both are written in the same, the other is marked
        role = attributes.VERIFY_SOURCE_REFERENCE
    return Source(role, "/".join((*folder, name)), {})


def true_name(safe: str) -> str:
    """What a name was before it was made safe; a shortened one stays as it is."""
    if safe == "~":
        return ""
    content = unquote_to_bytes(safe.encode("utf-8", "surrogateescape"))
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return content.decode("utf-8", "surrogateescape")
