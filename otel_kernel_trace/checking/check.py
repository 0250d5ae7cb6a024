"""The one place of a check that reads: trees, fingerprints, logs and rules."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from otel_kernel_trace.actions import Agent
from otel_kernel_trace.attributes import ERROR_LOG, PROMPT, REASONING, RESULT
from otel_kernel_trace.checking.context import Context, Searched, TaskKey
from otel_kernel_trace.checking.health import Health
from otel_kernel_trace.checking.judging import judge
from otel_kernel_trace.checking.rules import Rule, RulesError, place_of, rules_in
from otel_kernel_trace.checking.searching import Log, Search
from otel_kernel_trace.fingerprint.document import fingerprints_in
from otel_kernel_trace.fingerprint.fingerprint import Fingerprint, fingerprint_of, fingerprint_of_build
from otel_kernel_trace.reader.model import Action, Part, Stage, Task
from otel_kernel_trace.reader.timeline import Price
from otel_kernel_trace.reader.tree import Tree
from otel_kernel_trace.tables import read_table

Source = str | os.PathLike[str]

_NO_LOGS: Final = (PROMPT, REASONING, RESULT, "reply")
"""Parts that nobody but a model or a person writes."""

_BUILDER: Final = "builder log"


class BuilderLog(Protocol):
    """What a logger kept of a build: this package's ``TracingLogger``, or one of the program's own.

    Where it has a ``summary``, too, that tells by the names of ``BuilderSummary`` of refused
    fusions, the rate, memory, time, version and precision.
    """

    @property
    def fusion_count(self) -> int: ...
    @property
    def warnings(self) -> Sequence[str]: ...


def check_log_health(
    log: Source | BuilderLog,
    rules: Source | Mapping[str, object],
    *,
    baseline: Source | BuilderLog | None = None,
    prices: Mapping[str, Price] | None = None,
) -> Health:
    """Whether a tree, or a builder's log, is as rules want it. Nothing is written.

    >>> check_log_health(logger, {"fusions": {"minimum": 12}, "messages": {"forbidden": "cannot fuse"}})

    Args:
        log: root of a tree, a file of fingerprints, or a logger with ``fusion_count`` and ``warnings``.
        rules: a file, as TOML or JSON, or the same as a table; docs/check.md has every rule.
        baseline: what it is compared with; a file is one of fingerprints.
        prices: by model, for rules about cost.

    Returns:
        What came of every rule; ``raise_for_failures()`` makes a :class:`RuntimeError` of it.

    Raises:
        RulesError: the rules can't be used, or need a baseline or prices that are not given.
        TypeError: ``log`` or the baseline is none of these.
        NoTreeError: the baseline holds no tree. One without a task for ``log`` is no error: it fails.
        ValueError: the baseline is a file of something else.
        OSError: something can't be read.
    """
    read = _rules(rules)
    for rule in read:
        place = "" if isinstance(rules, Mapping) else place_of(os.fspath(rules), rule.line) + ": "
        if rule.needs_baseline and baseline is None:
            raise RulesError(f"{place}[{rule.table}] {rule.key} compares, and no baseline is given")
        if rule.table == "cost" and prices is None:
            raise RulesError(f"{place}[cost] {rule.key} needs prices, and none are given")
    wanted = [rule for rule in read if rule.table == "messages"]
    tasks, searched = _now(log, wanted)
    before = [] if baseline is None else _before(baseline)
    return judge(read, Context(tasks, before, MappingProxyType(searched), prices or {}))


def fingerprints_of(tree: Tree) -> list[Fingerprint]:
    """The fingerprints of a tree's tasks, in order of op and task."""
    return [fingerprint_of(tree.task(*key)) for key in tree.tasks()]


def _rules(rules: Source | Mapping[str, object]) -> tuple[Rule, ...]:
    if isinstance(rules, Mapping):
        return rules_in(rules)
    try:
        table, text = read_table(rules, "rules")
    except ValueError as error:
        raise RulesError(f"{os.fspath(rules)}: {error}") from error
    return rules_in(table, text, os.fspath(rules))


def _now(
    log: Source | BuilderLog, wanted: Sequence[Rule]
) -> tuple[list[Fingerprint], dict[TaskKey, Searched]]:
    texts = [text for rule in wanted if rule.key == "forbidden" for text in rule.texts]
    patterns = [text for rule in wanted if rule.key == "forbidden_patterns" for text in rule.texts]
    with Search(texts, patterns) as search:
        if not isinstance(log, (str, os.PathLike)):
            task = _of_builder(log)
            lines = Log("\n".join(map(str, log.warnings)))
            return [task], {(task.op_name, task.task_id): search.search([lines])}
        if os.path.isfile(os.path.expanduser(log)):
            return _in_file(log), {}
        return _in_tree(Tree(log, may_be_empty=True), search if wanted else None)


def _in_tree(tree: Tree, search: Search | None) -> tuple[list[Fingerprint], dict[TaskKey, Searched]]:
    tasks: list[Fingerprint] = []
    searched: dict[TaskKey, Searched] = {}
    for key in tree.tasks():
        task = tree.task(*key)
        tasks.append(fingerprint_of(task))
        if search is not None:
            searched[key] = search.search(*_logs_of(tree, task))
    return tasks, searched


def _before(baseline: Source | BuilderLog) -> list[Fingerprint]:
    if not isinstance(baseline, (str, os.PathLike)):
        return [_of_builder(baseline)]
    if os.path.isfile(os.path.expanduser(baseline)):
        return _in_file(baseline)
    return fingerprints_of(Tree(baseline))


def _in_file(path: Source) -> list[Fingerprint]:
    try:
        return fingerprints_in(Path(path).expanduser().read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def _of_builder(log: BuilderLog) -> Fingerprint:
    if not hasattr(log, "fusion_count") or not hasattr(log, "warnings"):
        wanted = "a tree's folder, a file, or a logger with fusion_count and warnings"
        raise TypeError(f"{wanted} was expected, not {log!r}")
    summary = getattr(log, "summary", None)
    names = ("fusions_refused", "fusion_rate", "peak_memory", "engine_time", "engine_version", "precision")
    figures = {name: told for name in names if (told := getattr(summary, name, None)) is not None}
    warnings = tuple({"severity": "WARNING", "message": str(text)} for text in log.warnings)
    builder = {**figures, "fusions_made": log.fusion_count}
    return fingerprint_of_build(_BUILDER, builder, warnings)


def _logs_of(tree: Tree, task: Task) -> tuple[list[Log], list[str]]:
    """The logs of a task, and which can't be read and why."""
    logs: list[Log] = []
    unread: list[str] = []
    for part in _log_parts(task):
        try:
            logs.append(Log(tree.text(part), part.path))
        except OSError as error:
            unread.append(f"log {part.path or part.name} can't be read: {error.strerror or error}")
    told_of: list[Action | Stage] = [*task.actions, *task.stages]
    for one in told_of:
        has_log = isinstance(one, Stage) and "log" in one.outputs
        lines = () if has_log else one.builder_lines
        told = [one.error, *(str(line.get("message", "")) for line in lines)]
        if text := "\n".join(filter(None, told)):
            logs.append(Log(text))
    return logs, unread


def _log_parts(task: Task) -> Iterable[Part]:
    for action in task.actions:
        for name, part in action.parts.items():
            is_verifiers = action.agent is Agent.VERIFIER and name not in _NO_LOGS
            if name == ERROR_LOG or (is_verifiers and not name.startswith("source.")):
                yield part
    for stage in task.stages:
        yield from stage.outputs.values()
