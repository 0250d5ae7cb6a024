"""Rules about what compilers, runs and builders say: messages, errors, warnings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from otel_kernel_trace.checking.context import Context, Judge, finding, limited, pairs, unmeasured
from otel_kernel_trace.checking.health import Finding
from otel_kernel_trace.checking.rules import Rule
from otel_kernel_trace.fingerprint.fingerprint import Fingerprint

_NO_LOGS = "there is no log: nothing was verified, compiled or built"


def _messages(rule: Rule, context: Context) -> Iterator[Finding]:
    for task in context.tasks:
        searched = context.searched.get((task.op_name, task.task_id))
        if searched is None:
            yield unmeasured(rule, "a fingerprint has no logs; check the tree itself", task)
            continue
        if not searched.logs and not searched.unread and not task.has_run:
            yield unmeasured(rule, _NO_LOGS, task)
            continue
        for why in searched.unread:
            yield unmeasured(rule, why, task)
        is_pattern = rule.key == "forbidden_patterns"
        seen = {each.message: each for each in searched.sightings if each.is_pattern is is_pattern}
        for message in rule.texts:
            sighting = seen.get(message)
            if sighting is None:
                yield finding(rule, "held", f"in none of {searched.logs} logs", task, subject=message)
                continue
            lines = "1 line" if sighting.times == 1 else f"{sighting.times} lines"
            yield finding(
                rule,
                "failed",
                f"in {lines}, the first: {sighting.text}",
                task,
                subject=message,
                value=sighting.times,
                limit=0,
                file=sighting.file,
                line=sighting.line,
            )


def _categories(rule: Rule, context: Context) -> Iterator[Finding]:
    is_allowed = rule.key == "allowed_categories"
    for task in context.tasks:
        wrong = {
            category: times
            for category, times in task.error_categories.items()
            if times and (category in rule.texts) is not is_allowed
        }
        told = ", ".join(f"{category} {times}" for category, times in wrong.items())
        yield from _of_errors(
            rule, task, f"errors of categories that may not be: {told}", sum(wrong.values())
        )


def _signatures(rule: Rule, context: Context) -> Iterator[Finding]:
    parts = [text.casefold() for text in rule.texts]
    for task in context.tasks:
        wrong = [one for one in task.error_signatures if any(part in one.casefold() for part in parts)]
        yield from _of_errors(rule, task, f"errors that may not be: {_listed(wrong)}", len(wrong))


def _of_errors(rule: Rule, task: Fingerprint, told: str, times: int) -> Iterator[Finding]:
    """That a task has none of some errors, as far as its logs could be understood."""
    if times:
        yield finding(rule, "failed", told, task, value=times, limit=0)
    elif not task.has_run:
        yield unmeasured(rule, _NO_LOGS, task)
    elif task.undiagnosed:
        many = "1 verification" if task.undiagnosed == 1 else f"{task.undiagnosed} verifications"
        yield unmeasured(rule, f"{many} failed, and no diagnostic says why", task)
    else:
        yield finding(rule, "held", "no such error", task, value=0, limit=0)


def _no_new(texts: Callable[[Fingerprint], Iterable[str]]) -> Judge:
    """That an op has no text of a kind that the baseline's tasks of it have not."""

    def judge(rule: Rule, context: Context) -> Iterator[Finding]:
        for pair in pairs(rule, context):
            if isinstance(pair, Finding):
                yield pair
                continue
            op_name, tasks, earlier = pair
            if not any(task.has_run for task in tasks):
                yield unmeasured(rule, _NO_LOGS, op_name=op_name)
                continue
            known = {normal(text) for task in earlier for text in texts(task)}
            new = {normal(text): text for task in tasks for text in texts(task) if normal(text) not in known}
            if new:
                told = f"the baseline has not: {_listed(new.values())}"
                yield finding(rule, "failed", told, op_name=op_name, value=len(new), limit=0)
            else:
                yield finding(rule, "held", "nothing new", op_name=op_name, value=0, limit=0)

    return judge


_VARIABLE = re.compile(r"(?<!\w)(?:0x[0-9a-fA-F]+|[0-9][0-9.,]*)|\s+")


def normal(text: str) -> str:
    """A text without what differs from run to run: addresses, spaces, and numbers that are in no name."""
    return _VARIABLE.sub(lambda found: " " if found[0].isspace() else "#", text).strip()


def _listed(texts: Iterable[str], most: int = 5) -> str:
    found = list(texts)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(found[:most]) + more


def _maximum_warnings(rule: Rule, context: Context) -> Iterator[Finding]:
    for task in context.tasks:
        if not task.has_run:
            yield unmeasured(rule, _NO_LOGS, task)
        else:
            note = f": {_listed(task.warnings)}" if len(task.warnings) > rule.limit else ""
            yield limited(rule, len(task.warnings), rule.limit, task, at_least=False, note=note)


JUDGES: Final[Mapping[str, Judge]] = {
    "messages.forbidden": _messages,
    "messages.forbidden_patterns": _messages,
    "diagnostics.allowed_categories": _categories,
    "diagnostics.forbidden_categories": _categories,
    "diagnostics.forbidden_signatures": _signatures,
    "diagnostics.no_new": _no_new(lambda task: task.error_signatures),
    "warnings.maximum": _maximum_warnings,
    "warnings.no_new": _no_new(lambda task: task.warnings),
}
