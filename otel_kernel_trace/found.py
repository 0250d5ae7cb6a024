"""Records of files that no index tells of: another program's, or those of a lost index.

What a file's name does not say (times, verdicts, the raw reply) is not made up: a span
of such a record begins and ends when its files were last changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, SpanContext, TraceFlags
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.actions import ActionType, Agent, agent_of
from otel_kernel_trace.filenames import (
    CONDUCTOR,
    NUMBERED,
    Named,
    Numbered,
    Place,
    attribute_of,
    layout_of_names,
    place_of,
    read_name,
    read_sources,
    read_verification,
    split,
    true_name,
)
from otel_kernel_trace.indexed import Passed
from otel_kernel_trace.layout import Folder
from otel_kernel_trace.record import Record
from otel_kernel_trace.store import PRIVATE, Store

_SETTLED = 1_000_000_000
"""Nanoseconds after which a file's line in the index is there, if it has one."""

_WITH_DOCUMENT = (Agent.DESIGNER, Agent.CODER)
"""Whose results are what was parsed out of a reply."""

_no_resource = Resource.get_empty()


@dataclass(frozen=True, slots=True)
class Identity:
    """An action by what its file names say."""

    op_name: str
    task_id: str
    step: int
    action_type: str
    copy: int


@dataclass(slots=True)
class Files:
    """Where the texts of an action are, by attribute; and attributes that names tell."""

    layout: Numbered
    paths: dict[str, str] = field(default_factory=dict)
    told: dict[str, AttributeValue] = field(default_factory=dict)


class Unindexed:
    """The files of a tree that its index does not tell of.

    Args:
        store: of the tree.
        unknown: of the names in a folder those of which the index does not tell; of a
            verification's folder it need not know each file.
        passed: where files are counted whose names are nobody's.
        has_index: whether the tree has an index at all.
    """

    def __init__(
        self,
        store: Store,
        unknown: Callable[[Folder, list[str]], list[str]],
        passed: Passed,
        *,
        has_index: bool,
    ) -> None:
        self._store = store
        self._of_unknown = unknown
        self._passed = passed
        self._has_index = has_index
        self._layouts: dict[str, Numbered] = {}
        self._texts: dict[Place, list[Named]] = {}
        self._sources: dict[Place, tuple[Folder, list[str]]] = {}
        for op_folder in _folders(store):
            names = self._unknown((op_folder,))
            layout = self._layouts[op_folder] = layout_of_names(names)
            for name in names:
                if name.endswith(".txt"):
                    self._add_text(layout, (op_folder,), name)
                elif name != CONDUCTOR:
                    self._add_sources(layout, (op_folder, name))
            for name in self._unknown((op_folder, CONDUCTOR)):
                if name.endswith(".txt"):
                    self._add_text(layout, (op_folder, CONDUCTOR), name)

    def __bool__(self) -> bool:
        return bool(self._texts or self._sources)

    def paths(self) -> set[str]:
        """Below the root."""
        texts = {file.path for named in self._texts.values() for file in named}
        sources = {"/".join((*folder, name)) for folder, names in self._sources.values() for name in names}
        return texts | sources

    def take(self, record: Record, layout: object) -> dict[str, AttributeValue]:
        """Attributes of an action that files with its name have, and of which the index does not tell.

        A process that is killed between an action's files and its line leaves such. The files
        are then no longer among these.

        Args:
            record: the action, with the step that it has on disk.
            layout: name of the layout that it was written in.
        """
        numbered = NUMBERED.get(layout) if isinstance(layout, str) else None
        found = place_of(numbered, record, record.step) if numbered and record.step is not None else None
        if found is None:
            return {}
        place, label = found
        paths, left = {}, []
        taken: dict[str, AttributeValue] = {}
        for file in self._texts.pop(place, []):
            if file.copy == record.copy and file.rest.startswith(label):
                paths[attribute_of(file.rest[len(label) :])] = file.path
            else:
                left.append(file)
        if left:
            self._texts[place] = left
        if agent_of(record.action_type) is Agent.VERIFIER and place in self._sources:
            folder, names = self._sources.pop(place)
            framework = record.attributes.get(attributes.VERIFY_FRAMEWORK)
            for source in read_sources(folder[0], folder, names, framework):
                paths[source.attribute] = source.path
        for attribute, path in paths.items():
            try:
                taken[attribute] = self._store.read_at(path).decode("utf-8", "surrogateescape")
            except OSError:
                self._passed.missing += 1
        if (
            agent_of(record.action_type) in _WITH_DOCUMENT
            and attributes.PART_PREFIX + attributes.RESULT in taken
        ):
            taken[attributes.RESULT_IS_DOCUMENT] = True
        return taken

    def spans(self, begun: int, known: Callable[[], Collection[str]]) -> Iterator[ReadableSpan]:
        """Spans for the actions whose files are left.

        Args:
            begun: when they were looked for, in nanoseconds since 1970: later files have a
                line since.
            known: asked for the paths of which the index tells a moment later.
        """
        actions = self.actions()
        if self._has_index and any(begun - _SETTLED < self._changed(f) <= begun for f in actions.values()):
            # Lines may be on the way.
            time.sleep(max(0, begun + _SETTLED - time.time_ns()) / 1e9)
            later = known()
            actions = {
                identity: files
                for identity, files in actions.items()
                if not any(path in later for path in files.paths.values())
            }
        judged: dict[tuple[str, str, int], SpanContext] = {}
        for identity, files in sorted(actions.items(), key=lambda found: _rank(found[0])):
            span = self._span(identity, files)
            if not span.end_time or (self._has_index and span.end_time > begun):
                continue  # none of its files could be read; or it is newer than what was asked for
            place = (identity.op_name, identity.task_id, identity.step)
            if agent_of(identity.action_type) is not Agent.CONDUCTOR and span.context:
                judged[place] = span.context
            elif place in judged:
                span = _with_link(span, judged[place])
            yield span

    def _add_text(self, layout: Numbered, folder: Folder, name: str) -> None:
        read = read_name(layout, folder, name)
        if read is None:
            self._passed.strange += 1
        else:
            self._texts.setdefault(read[0], []).append(read[1])

    def _add_sources(self, layout: Numbered, folder: Folder) -> None:
        place = read_verification(layout, folder)
        if place is not None and (names := self._unknown(folder)):
            self._sources[place] = (folder, names)

    def _unknown(self, folder: Folder) -> list[str]:
        try:
            names = self._store.entries(folder)
        except OSError:
            return []
        return sorted(self._of_unknown(folder, names))

    def actions(self) -> dict[Identity, Files]:
        """Where the texts are, by the action that their names say."""
        actions: dict[Identity, Files] = {}
        for place, named in self._texts.items():
            layout = self._layouts[place.folder[0]]
            for copy in sorted({file.copy for file in named}):
                of_copy = split(layout, [file for file in named if file.copy == copy])
                self._passed.strange += sum(file.copy == copy for file in named) - len(of_copy)
                for action_type, attribute, file in of_copy:
                    identity = _identity(place, action_type, copy)
                    actions.setdefault(identity, Files(layout)).paths[attribute] = file.path
        for place, (folder, names) in self._sources.items():
            identity = _identity(place, ActionType.VERIFY.name, 1)
            files = actions.setdefault(identity, Files(self._layouts[folder[0]]))
            for source in read_sources(folder[0], folder, names):
                files.paths[source.attribute] = source.path
                files.told.update(source.told)
        return actions

    def _changed(self, files: Files) -> int:
        changed = 0
        for path in files.paths.values():
            with contextlib.suppress(OSError):
                changed = max(changed, self._store.changed(path))
        return changed

    def _span(self, identity: Identity, files: Files) -> ReadableSpan:
        given: dict[str, AttributeValue] = {
            **attributes.of_action(identity.op_name, identity.task_id, identity.step, identity.action_type),
            attributes.LAYOUT: files.layout.name,
            **files.told,
        }
        if identity.copy > 1:
            given[attributes.COPY] = identity.copy
        digest = hashlib.sha256(repr(identity).encode("utf-8", "surrogatepass"))
        changed = 0
        for attribute, path in sorted(files.paths.items()):
            try:
                content = self._store.read_at(path)
                changed = max(changed, self._store.changed(path))
            except OSError:
                self._passed.missing += 1
                continue
            given[attribute] = content.decode("utf-8", "surrogateescape")
            digest.update(attribute.encode("utf-8", "surrogatepass") + b"\0" + content)
        if agent_of(identity.action_type) in _WITH_DOCUMENT:
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
            start_time=changed,
            end_time=changed,
        )


def _identity(place: Place, action_type: str, copy: int) -> Identity:
    return Identity(true_name(place.folder[0]), true_name(place.task), place.step, action_type, copy)


def _rank(identity: Identity) -> tuple[str, str, int, bool, int, str]:
    is_judgement = agent_of(identity.action_type) is Agent.CONDUCTOR
    return (
        identity.op_name,
        identity.task_id,
        identity.step,
        is_judgement,
        identity.copy,
        identity.action_type,
    )


def _with_link(span: ReadableSpan, judged: SpanContext) -> ReadableSpan:
    return ReadableSpan(
        span.name,
        span.context,
        resource=span.resource,
        attributes=span.attributes,
        links=[Link(judged, {attributes.JUDGES: True})],
        start_time=span.start_time,
        end_time=span.end_time,
    )


def _folders(store: Store) -> list[str]:
    try:
        names = sorted(store.entries(()))
    except OSError:
        return []
    return [name for name in names if name != PRIVATE and store.is_folder((name,))]
