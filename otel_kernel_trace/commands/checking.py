"""Whether a tree is as it should be: ``fingerprint`` and ``check``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from otel_kernel_trace.checking import Finding, Health, RulesError, check_log_health
from otel_kernel_trace.checking.check import fingerprints_of
from otel_kernel_trace.checking.github import annotations_of, harmless
from otel_kernel_trace.checking.junit import junit_of
from otel_kernel_trace.commands import terminal
from otel_kernel_trace.commands.output import written
from otel_kernel_trace.commands.terminal import safe, safe_line
from otel_kernel_trace.fingerprint.document import text_of
from otel_kernel_trace.reader import NoTreeError, Price, Tree, documents
from otel_kernel_trace.reader.documents import Json
from otel_kernel_trace.reader.prices import read_prices

UNHEALTHY = 3
"""Exit status where a rule does not hold: 1 and 2 say that it could not be found out."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_COLOURS = {"failed": "red", "not measured": "yellow", "skipped": "bright_black", "held": "green"}


@click.command("fingerprint")
@click.argument("log_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("op", required=False)
@click.argument("task", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="[default: stdout]",
)
def fingerprint_command(log_dir: Path, op: str | None, task: str | None, output: Path | None) -> None:
    """What the tasks in the tree LOG_DIR came to, and what they were made with, as JSON.

    Of all tasks, those of one OP, or one TASK. Kept beside the code, it is a baseline for `check`;
    docs/json.md has its fields.

    \b
    otel-kernel-trace fingerprint ./kernel_trace_logs -o baseline.json
    otel-kernel-trace fingerprint ./kernel_trace_logs swish 123 | jq '.tasks[0].toolchain'
    """
    with _failures_in_words():
        tree = Tree(log_dir, only=(op, task) if op is not None and task is not None else None)
        found = [one for one in fingerprints_of(tree) if op is None or one.op_name == op]
        if not found:
            raise click.ClickException(f"there is no op {safe(op or '')!r} in {log_dir}")
        content = text_of(found).encode()

    def write(file: BinaryIO) -> None:
        file.write(content)

    written(output, write)


@click.command("check")
@click.argument("log", metavar="LOG_DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--rules", type=_FILE, required=True, help="What has to be so, as TOML or JSON.")
@click.option(
    "--baseline",
    type=click.Path(exists=True, path_type=Path),
    help="What it is compared with: a tree, or a file of `fingerprint`.",
)
@click.option("--prices", type=_FILE, help="What models cost, for rules about cost; as for `ls`.")
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the findings as JUnit XML, too.",
)
@click.option(
    "--github/--no-github",
    default=None,
    help="Say failures as annotations, too.  [default: where GITHUB_ACTIONS is true]",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs; docs/json.md has its fields.")
def check_command(
    log: Path,
    rules: Path,
    baseline: Path | None,
    prices: Path | None,
    junit: Path | None,
    github: bool | None,
    as_json: bool,
) -> None:
    """Whether the tree LOG_DIR is as rules want it: a gate for continuous integration.

    docs/check.md has every rule. What the tree does not tell fails, unless the rule is optional.
    LOG_DIR may also be a file of `fingerprint`. Exit status: 0 all rules hold; 3 some do not;
    1 something can't be read; 2 wrong use, wrong rules included.

    \b
    otel-kernel-trace check ./kernel_trace_logs --rules rules.toml
    otel-kernel-trace check ./kernel_trace_logs --rules rules.toml --baseline baseline.json --junit check.xml
    """
    terminal.set_colours(click.get_current_context())
    if github is None:
        github = os.environ.get("GITHUB_ACTIONS") == "true"
    with _failures_in_words():
        table = None if prices is None else _prices(prices)
        health = check_log_health(log, rules, baseline=baseline, prices=table)
    if junit is not None:
        content = junit_of(health)

        def write(file: BinaryIO) -> None:
            file.write(content)

        written(junit, write)
    lines = [documents.text_of(_document(health, log))] if as_json else _report(health)
    for line in lines:
        click.echo(harmless(line) if github and not as_json else line)
    if github:
        for line in annotations_of(health, str(log), str(rules)):
            click.echo(safe(line), err=as_json)
    if not health.is_healthy:
        click.get_current_context().exit(UNHEALTHY)


@contextmanager
def _failures_in_words() -> Iterator[None]:
    try:
        yield
    except RulesError as error:
        raise click.UsageError(safe(str(error))) from error
    except (NoTreeError, OSError, ValueError) as error:
        raise click.ClickException(safe(str(error))) from error


def _prices(path: Path) -> dict[str, Price]:
    try:
        return read_prices(path)
    except ValueError as error:
        raise click.ClickException(safe(f"{path}: {error}")) from error


def _report(health: Health) -> Iterator[str]:
    """What does not hold, task by task, and a line for the whole."""
    where = None
    for finding in health.findings:
        if finding.status == "held":
            continue
        if finding.where != where:
            where = finding.where
            kind = "task " if finding.task_id else "op " if finding.op_name else ""
            yield click.style(safe_line(kind + where), bold=True)
        yield f"  {click.style(f'{finding.status:12}', fg=_COLOURS[finding.status])}  {_sentence(finding)}"
    told = ", ".join(f"{number} {status}" for status, number in sorted(health.counts.items()))
    many = "1 task" if health.tasks == 1 else f"{health.tasks} tasks"
    yield f"{many}, {len(health.findings)} findings: {told}"


def _sentence(finding: Finding) -> str:
    place = f" ({finding.file}:{finding.line})" if finding.file else ""
    return safe_line(f"{finding.rule}: {finding.message}{place}")


def _document(health: Health, log: Path) -> dict[str, Json]:
    findings: list[Json] = [_of_finding(finding) for finding in health.findings]
    return documents.of_document(
        "check", str(log.resolve()), healthy=health.is_healthy, tasks=health.tasks, findings=findings
    )


def _of_finding(finding: Finding) -> dict[str, Json]:
    return {
        "rule": finding.rule,
        "status": finding.status,
        "message": finding.message,
        "op_name": finding.op_name or None,
        "task_id": finding.task_id or None,
        "subject": finding.subject or None,
        "value": finding.value,
        "limit": finding.limit,
        "difference": finding.difference,
        "share": finding.share,
        "unit": finding.unit or None,
        "file": finding.file or None,
        "line": finding.line or None,
        "rule_line": finding.rule_line or None,
    }
