"""Records of files that no index tells of: another program's, or those of a lost index.

Names are read backwards, by the rule of the layout that they look like. What a name
does not say (times, verdicts, the raw reply) is not made up: a span of such a record
begins and ends when its files were last changed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, SpanContext, TraceFlags
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.actions import ActionType, Agent, agent_of
from otel_kernel_trace.indexed import Passed
from otel_kernel_trace.layout import AikgLayout, AkgAgentsLayout, DesignLayout, Folder
from otel_kernel_trace.store import PRIVATE, Store

_Numbered = DesignLayout | AikgLayout | AkgAgentsLayout

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

_COPY = re.compile(r"~([0-9]{1,6})$")
_SOURCE = re.compile(r"(?:~(implementation|script))?(?:~[0-9]{1,6})?\.py$")
_SETTLED = 1_000_000_000
"""Nanoseconds after which a file's line in the index is there, if it has one."""

_no_resource = Resource.get_empty()


@dataclass(frozen=True, slots=True)
class _Identity:
    """An action by what its file names say."""

    op_name: str
    task_id: str
    step: int
    action_type: str
    copy: int


@dataclass(slots=True)
class _Files:
    """Where the texts of an action are, by attribute; and attributes that names tell."""

    paths: dict[str, str] = field(default_factory=dict)
    told: dict[str, AttributeValue] = field(default_factory=dict)


def found_spans(store: Store, known: Collection[str], passed: Passed, begun: int) -> Iterator[ReadableSpan]:
    """Spans for the records whose files are in a tree and not among the ``known`` paths.

    ``begun`` is when those were looked for, in nanoseconds since 1970: later files have a line since.
    """
    for op_folder in sorted(_folders(store, ())):
        names = [name for name in _entries(store, (op_folder,)) if f"{op_folder}/{name}" not in known]
        layout = _layout_of(names)
        actions = _actions_in(store, layout, op_folder, names, known, passed)
        judged = {
            (identity.task_id, identity.step): identity
            for identity in actions
            if agent_of(identity.action_type) is not Agent.CONDUCTOR
        }
        contexts: dict[_Identity, SpanContext] = {}
        for identity, files in sorted(actions.items(), key=lambda action: _rank(action[0])):
            links = []
            if agent_of(identity.action_type) is Agent.CONDUCTOR:
                target = judged.get((identity.task_id, identity.step))
                if target in contexts:
                    links = [Link(contexts[target], {attributes.JUDGES: True})]
            files.told[attributes.LAYOUT] = layout.name
            span = _span(store, identity, files, links, passed)
            if not span.end_time:
                continue  # none of its files could be read
            if known and span.end_time > begun - _SETTLED:
                continue  # its line in the index may be on the way
            if span.context:
                contexts[identity] = span.context
            yield span


def _rank(identity: _Identity) -> tuple[str, int, bool, int, str]:
    is_judgement = agent_of(identity.action_type) is Agent.CONDUCTOR
    return identity.task_id, identity.step, is_judgement, identity.copy, identity.action_type


def _actions_in(
    store: Store,
    layout: _Numbered,
    op_folder: str,
    names: list[str],
    known: Collection[str],
    passed: Passed,
) -> dict[_Identity, _Files]:
    actions: dict[_Identity, _Files] = {}
    for folder in ((op_folder,), (op_folder, "conductor")):
        for name in names if len(folder) == 1 else _entries(store, folder):
            path = "/".join((*folder, name))
            if path in known or name == "conductor":
                continue
            if not name.endswith(".txt"):
                _add_sources(store, layout, (*folder, name), known, actions)
                continue
            read = _read_name(layout, op_folder, name.removesuffix(".txt"))
            if read is None:
                passed.strange += 1
                continue
            identity, attribute = read
            actions.setdefault(identity, _Files()).paths[attribute] = path
    return actions


def _layout_of(names: list[str]) -> _Numbered:
    if any(name.startswith(AkgAgentsLayout.task_prefix) for name in names):
        return AkgAgentsLayout()
    values = tuple(
        f"_{action.value}_" for action in ActionType if agent_of(action.name) is not Agent.CONDUCTOR
    )
    if any(value in name for name in names for value in values):
        return AikgLayout()
    return DesignLayout()


def _read_name(layout: _Numbered, op_folder: str, name: str) -> tuple[_Identity, str] | None:
    """The action of a text file, and the attribute whose text it holds."""
    row = re.match(
        rf"{layout.task_prefix}(.+?)_{layout.step_prefix}([0-9]{{2,10}})_{re.escape(op_folder)}_", name
    )
    if row is None:
        return None
    rest = name[row.end() :]
    copy = _COPY.search(rest)
    if copy:
        rest = rest[: copy.start()]
    labels = {layout.action(action.name): action.name for action in ActionType}
    for label in sorted(labels, key=len, reverse=True):
        if rest.startswith(f"{label}_") and not isinstance(layout, AkgAgentsLayout):
            action, part = labels[label], rest[len(label) + 1 :]
            break
    else:
        ending = next((part for part in _PARTS if rest.endswith(f"_{part}")), None)
        action, _, part = rest.rpartition("_") if ending is None else (rest[: -len(ending) - 1], "", ending)
        action = _AKG_ACTIONS.get(action, _true_name(action))
    if not action or not part:
        return None
    identity = _Identity(
        _true_name(op_folder), _true_name(row[1]), int(row[2]), action, int(copy[1]) if copy else 1
    )
    if part == "~incomplete":
        return identity, attributes.INCOMPLETE
    return identity, attributes.PART_PREFIX + _true_name(part)


def _add_sources(
    store: Store, layout: _Numbered, folder: Folder, known: Collection[str], actions: dict[_Identity, _Files]
) -> None:
    """Add what is in a verification's folder to its action."""
    row = re.fullmatch(rf"{layout.task_prefix}(.+?)_{layout.step_prefix}([0-9]{{2,10}})_verify", folder[-1])
    if row is None:
        return
    op, step = folder[0], int(row[2]) + 1 - layout.verify_step(1)
    identity = _Identity(_true_name(op), _true_name(row[1]), step, ActionType.VERIFY.name, 1)
    names = sorted(
        (name for name in _entries(store, folder) if "/".join((*folder, name)) not in known),
        key=lambda name: name.rpartition("_")[2].removesuffix(".py") not in _FRAMEWORKS,
    )
    files = actions.setdefault(identity, _Files()) if names else _Files()
    for name in names:
        written_in = name.removeprefix(f"{op}_")
        marked = _SOURCE.search(written_in)
        if name == f"verify_{op}.py":
            role, of_role = attributes.VERIFY_SOURCE_SCRIPT, None
        elif attributes.VERIFY_SOURCE_REFERENCE in files.paths or (marked and marked[1]):
            role, of_role = attributes.VERIFY_SOURCE_IMPLEMENTATION, attributes.VERIFY_IMPL_TYPE
        elif len(names) > 1 or written_in.removesuffix(".py") in _FRAMEWORKS:
            role, of_role = attributes.VERIFY_SOURCE_REFERENCE, attributes.VERIFY_FRAMEWORK
        else:
            role, of_role = attributes.VERIFY_SOURCE_IMPLEMENTATION, attributes.VERIFY_IMPL_TYPE
        files.paths[role] = "/".join((*folder, name))
        if of_role and marked:
            files.told[of_role] = _true_name(written_in[: marked.start()])


def _span(
    store: Store, identity: _Identity, files: _Files, links: list[Link], passed: Passed
) -> ReadableSpan:
    given: dict[str, AttributeValue] = {
        **attributes.of_action(identity.op_name, identity.task_id, identity.step, identity.action_type),
        **files.told,
    }
    if identity.copy > 1:
        given[attributes.COPY] = identity.copy
    digest = hashlib.sha256(repr(identity).encode("utf-8", "surrogatepass"))
    changed = 0
    for attribute, path in sorted(files.paths.items()):
        try:
            content = store.read_at(path)
            changed = max(changed, store.changed(path))
        except OSError:
            passed.missing += 1
            continue
        given[attribute] = content.decode("utf-8", "surrogateescape")
        digest.update(attribute.encode("utf-8", "surrogatepass") + b"\0" + content)
    if agent_of(identity.action_type) in (Agent.DESIGNER, Agent.CODER):
        given[attributes.RESULT_IS_DOCUMENT] = True
    task = hashlib.sha256(f"{identity.op_name}\0{identity.task_id}".encode("utf-8", "surrogatepass"))
    context = SpanContext(
        int.from_bytes(task.digest()[:16], "big"),
        int.from_bytes(digest.digest()[:8], "big"),
        False,
        TraceFlags(TraceFlags.SAMPLED),
    )
    return ReadableSpan(
        identity.action_type,
        context,
        resource=_no_resource,
        attributes=given,
        links=links,
        start_time=changed,
        end_time=changed,
    )


def _folders(store: Store, folder: Folder) -> list[str]:
    return [name for name in _entries(store, folder) if name != PRIVATE and store.is_folder((*folder, name))]


def _entries(store: Store, folder: Folder) -> list[str]:
    try:
        return sorted(store.entries(folder))
    except OSError:
        return []


def _true_name(safe: str) -> str:
    """What a name was before it was made safe; a shortened one stays as it is."""
    if safe == "~":
        return ""
    content = unquote_to_bytes(safe.encode("utf-8", "surrogateescape"))
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return content.decode("utf-8", "surrogateescape")
