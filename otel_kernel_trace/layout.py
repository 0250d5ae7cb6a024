"""The rule from a record to the names of its files.

A layout is one small class. To add one, derive it from :class:`Layout`, give it a
``name``, and pass an instance to the exporter (or its name, once the class exists).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from otel_kernel_trace.actions import Agent, action_named, agent_of
from otel_kernel_trace.attributes import (
    ERROR_LOG,
    INCOMPLETE,
    PART_PREFIX,
    PROMPT,
    REASONING,
    RESULT,
    VERIFY_SOURCE_IMPLEMENTATION,
    VERIFY_SOURCE_REFERENCE,
    VERIFY_SOURCE_SCRIPT,
)
from otel_kernel_trace.names import MAX_NAME_BYTES, safe_name
from otel_kernel_trace.record import Record, Verification
from otel_kernel_trace.reply import document

Folder = tuple[str, ...]
"""A folder below ``log_dir``, one component an item."""

_PREFIX = len(PART_PREFIX)
_AGENT_PARTS = frozenset({PROMPT, REASONING, RESULT})

_ASCII_NAME_CHARS = MAX_NAME_BYTES // 4
"""A name of so few characters is short enough in any script."""
_STEP_DIGITS = 10
_SHORTENED_BYTES = 48
"""What each of up to four names gets where together they are too long for one file name."""


class File(NamedTuple):
    """One file to write. A tuple, as records have several of them and every one is made anew."""

    attribute: str
    """Name of the span attribute whose text the file holds."""
    folder: Folder
    name: str
    text: str


class Layout(ABC):
    """Where the records of a task go, and which steps a folder already holds."""

    name: ClassVar[str]
    by_name: ClassVar[dict[str, type[Layout]]] = {}
    """Every layout there is."""

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            Layout.by_name[cls.name] = cls

    def folder(self, op_name: str) -> Folder:
        """The folder of an operator."""
        return (safe_name(op_name),)

    @abstractmethod
    def files(self, record: Record, step: int, copy: int = 1) -> list[File]:
        """The files of ``record`` at ``step``.

        Args:
            record: the action.
            step: the step it has on disk.
            copy: from 2 on, asks for names that differ from those of the copies before:
                the Conductor may judge a step more than once.
        """

    @abstractmethod
    def steps_among(self, entries: Iterable[str], op_name: str, task_id: str) -> Iterator[int]:
        """The steps that ``entries`` of :meth:`folder` hold of that task; others are passed over."""


class _Numbered(Layout):
    """What the three layouts share: names of task, step, op, action and part in one row."""

    task_prefix: ClassVar[str]
    step_prefix: ClassVar[str]

    def files(self, record: Record, step: int, copy: int = 1) -> list[File]:
        agent = agent_of(record.action_type)
        folder, before = self.beginning(record, step)
        mark = "" if copy == 1 else f"~{copy}"
        planned = []
        named = [(PART_PREFIX + part, safe_name(part), text) for part, text in self.texts(record, agent)]
        if record.incomplete:
            named.append((INCOMPLETE, "~incomplete", record.incomplete))
        for attribute, part, text in named:
            name = f"{before}{part}{mark}.txt"
            if not _fits(name):
                action = self.action(record.action_type)
                op, short = (safe_name(n, _SHORTENED_BYTES) for n in (record.op_name, action))
                last = part if attribute == INCOMPLETE else safe_name(attribute[_PREFIX:], _SHORTENED_BYTES)
                row = self._row(step, record.task_id, _SHORTENED_BYTES)
                name = f"{row}_{op}_{short}_{last}{mark}.txt"
            planned.append(File(attribute, folder, name, text))
        if record.verification is not None:
            planned.extend(self._sources(record, record.verification, step, mark))
        return planned

    def beginning(self, record: Record, step: int) -> tuple[Folder, str]:
        """Folder, and what the names of the record's texts begin with where they are not too long."""
        folder = self.folder(record.op_name)
        if self.has_conductor_folder and agent_of(record.action_type) is Agent.CONDUCTOR:
            folder = (*folder, "conductor")
        action = safe_name(self.action(record.action_type))
        return folder, f"{self._row(step, record.task_id)}_{safe_name(record.op_name)}_{action}_"

    has_conductor_folder: ClassVar[bool] = True

    @abstractmethod
    def action(self, action_type: str) -> str:
        """How file names call an action."""

    def texts(self, record: Record, agent: Agent | None) -> Sequence[tuple[str, str]]:
        """The parts that are written, with the text of each file.

        Designer and Coder have their three parts whatever was given, the result being
        the code and comment of the reply. Elsewhere, and where texts are left out for the
        action's level, an empty text makes no file.
        """
        parts = record.parts
        if record.is_partial or (agent is not Agent.DESIGNER and agent is not Agent.CODER):
            return [(part, text) for part, text in parts.items() if text]
        result = parts.get(RESULT, "")
        texts = [
            (PROMPT, parts.get(PROMPT, "")),
            (REASONING, parts.get(REASONING, "")),
            (RESULT, result if record.is_document else document(result)),
        ]
        if not parts.keys() <= _AGENT_PARTS:
            texts += [
                (part, text)
                for part, text in parts.items()
                if part not in _AGENT_PARTS and (text or part != ERROR_LOG)
            ]
        return texts

    def steps_among(self, entries: Iterable[str], op_name: str, task_id: str) -> Iterator[int]:
        del op_name  # the folder is the op's own
        rows = tuple(
            f"{self._task(task_id, max_bytes)}_{self.step_prefix}"
            for max_bytes in (MAX_NAME_BYTES, _SHORTENED_BYTES)
        )
        for entry in entries:
            if entry.startswith(rows):
                row = next(row for row in rows if entry.startswith(row))
                digits = entry[len(row) :].partition("_")[0]
                if digits.isdecimal() and digits.isascii() and 2 <= len(digits) <= _STEP_DIGITS:
                    yield int(digits)

    def verify_step(self, step: int) -> int:
        """The step in the name of a verification's folder."""
        return step

    def rows(self, task_id: str) -> str:
        """What the names of a task's files begin with, before the step."""
        return f"{self._task(task_id, MAX_NAME_BYTES)}_{self.step_prefix}"

    def _row(self, step: int, task_id: str, max_bytes: int = MAX_NAME_BYTES) -> str:
        return f"{self._task(task_id, max_bytes)}_{self.step_prefix}{step:02d}"

    def _task(self, task_id: str, max_bytes: int) -> str:
        task = safe_name(task_id, max_bytes)
        if f"_{self.step_prefix}" in task:
            # Else "1_S02_x" at step 1 and "1" at step 2 could meet in one name.
            task = re.sub(f"_(?={self.step_prefix}[0-9])", "%5F", task)
        return f"{self.task_prefix}{task}"

    def _sources(self, record: Record, verification: Verification, step: int, mark: str) -> Iterator[File]:
        def folder(max_bytes: int) -> str:
            return f"{self._row(self.verify_step(step), record.task_id, max_bytes)}_verify"

        def source(written_in: str) -> str:
            return _fitting(lambda max_bytes: f"{op(max_bytes)}_{safe_name(written_in, max_bytes)}{mark}.py")

        def op(max_bytes: int) -> str:
            return safe_name(record.op_name, max_bytes)

        where = (*self.folder(record.op_name), _fitting(folder))
        taken: set[str] = set()
        script = _fitting(lambda max_bytes: f"verify_{op(max_bytes)}{mark}.py")
        for attribute, name, text in (
            (VERIFY_SOURCE_REFERENCE, source(verification.framework), verification.reference),
            (VERIFY_SOURCE_IMPLEMENTATION, source(verification.impl_type), verification.implementation),
            (VERIFY_SOURCE_SCRIPT, script, verification.script),
        ):
            if text is None:
                continue
            # Reference and implementation may be written in the same thing.
            role = attribute.rpartition(".")[2]
            unique = name if name not in taken else f"{name.removesuffix('.py')}~{role}.py"
            taken.add(unique)
            yield File(attribute, where, unique, text)


def _fitting(joined: Callable[[int], str]) -> str:
    """A file name made of several names, each of them shortened if together they are too long."""
    name = joined(MAX_NAME_BYTES)
    return name if _fits(name) else joined(_SHORTENED_BYTES)


def _fits(name: str) -> bool:
    return len(name) <= _ASCII_NAME_CHARS or len(name.encode()) <= MAX_NAME_BYTES


class DesignLayout(_Numbered):
    """The prescribed tree, to the letter: names of enum members."""

    name = "design"
    task_prefix = "I"
    step_prefix = "S"

    def action(self, action_type: str) -> str:
        # The document names the Conductor's three checks by value.
        action = action_named(action_type)
        return action.value if action and agent_of(action_type) is Agent.CONDUCTOR else action_type


class AikgLayout(_Numbered):
    """What the first implementation (AIKG, mid 2025) wrote: values of enum members."""

    name = "aikg"
    task_prefix = "I"
    step_prefix = "S"

    def action(self, action_type: str) -> str:
        action = action_named(action_type)
        return action.value if action else action_type

    def verify_step(self, step: int) -> int:
        # Its verifier ran before the step was counted.
        return max(step - 1, 0)


class AkgAgentsLayout(_Numbered):
    """What its successor (AKG agents, 2026) writes: free record names, raw replies, empty parts."""

    name = "akg_agents"
    task_prefix = "Iteration"
    step_prefix = "Step"
    has_conductor_folder = False

    def action(self, action_type: str) -> str:
        agent = agent_of(action_type)
        if agent is None:
            return action_type
        return "conductor_decision" if agent is Agent.CONDUCTOR else agent.value

    def texts(self, record: Record, agent: Agent | None) -> Sequence[tuple[str, str]]:
        return list(record.parts.items())
