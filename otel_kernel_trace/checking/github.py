"""Findings as annotations of GitHub's actions, and texts that its runner does not obey.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands; the escapes are
those that https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs undoes.
"""

from __future__ import annotations

from otel_kernel_trace.checking.health import Finding, Health


def annotations_of(health: Health, log_dir: str, rules: str) -> list[str]:
    """A line for every failure, at the log that shows it or else at the rule.

    Args:
        health: what was found.
        log_dir: root of the tree, as the workflow's files have it.
        rules: path of the rules.
    """
    return [_annotation(finding, log_dir, rules) for finding in health.failures]


def _annotation(finding: Finding, log_dir: str, rules: str) -> str:
    if finding.file:
        file, line = f"{log_dir.rstrip('/')}/{finding.file}", finding.line
    else:
        file, line = rules, finding.rule_line
    properties = {"file": file, "line": str(line or 1), "title": f"{finding.rule} {finding.status}"}
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::error {told}::{_data(f'{finding.where}: {finding.message}')}"


def harmless(line: str) -> str:
    """A line with nothing in it that the runner takes for a command.

    A command begins with ``::``, after spaces, or with ``##[``, which may stand anywhere.
    """
    line = line.replace("##[", "## [")
    return f"| {line}" if line.lstrip().startswith("::") else line


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
