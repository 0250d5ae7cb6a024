"""What happened in a tree: ``ls``, ``show``, ``diff``, ``blame``, ``compare``, ``recover``."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from otel_kernel_trace.commands import story, terminal
from otel_kernel_trace.commands.answering import JSON, TREE, answering, no_op, say_json, task_of
from otel_kernel_trace.commands.findings import errors_compared
from otel_kernel_trace.commands.terminal import count, duration, safe, safe_line, safe_text, speedup
from otel_kernel_trace.reader import (
    Attempt,
    Price,
    Summary,
    Task,
    Tree,
    attempts_of,
    blame,
    code_of,
    compare,
    cost_of,
    diff,
    documents,
    pair_of,
    spent,
    tokens_by_model,
)
from otel_kernel_trace.reader.documents import Json
from otel_kernel_trace.reader.prices import read_prices

_PRICES = click.option(
    "--prices",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='What models cost for a million tokens: {"model": {"input": 2.0, "output": 8.0}}, JSON or TOML.',
)


@click.command("ls")
@TREE
@click.argument("op", required=False)
@_PRICES
@JSON
@answering
def ls_command(log_dir: Path, op: str | None, prices: Path | None, as_json: bool) -> None:
    """The tasks in the tree LOG_DIR, or those of one OP: how they went and where they stand.

    \b
    otel-kernel-trace ls ./kernel_trace_logs
    otel-kernel-trace ls ./kernel_trace_logs swish --json | jq '.tasks[].outcome'
    """
    tree = Tree(log_dir)
    summaries = [summary for summary in tree.summaries() if op is None or summary.op_name == op]
    if op is not None and not summaries:
        raise click.ClickException(no_op(tree, op))
    errors = [tree.first_error(summary) for summary in summaries]
    costs = _costs(tree, summaries, prices)
    if as_json:
        tasks: list[Json] = []
        for summary, error, cost in zip(summaries, errors, costs, strict=True):
            told = documents.of_summary(summary, error)
            tasks.append(told if prices is None else {**told, "cost": cost})
        say_json("ls", tree, tasks=tasks)
        return
    head = ["OP", "TASK", "OUTCOME", "STEPS", "SPEEDUP", "TOKENS", "WALL TIME", "NOW", "FIRST ERROR"]
    rows = [
        [
            summary.op_name,
            summary.task_id,
            summary.outcome.value,
            str(summary.steps),
            speedup(summary.best_speedup),
            count(summary.tokens.input + summary.tokens.output) if summary.tokens else "-",
            duration(summary.wall_time),
            story.now(summary),
            error,
        ]
        for summary, error in zip(summaries, errors, strict=True)
    ]
    if prices is not None:
        head.insert(6, "COST")
        for row, cost in zip(rows, costs, strict=True):
            row.insert(6, "-" if cost is None else f"{cost:.4g}")
    right = [
        index
        for index, name in enumerate(head)
        if name in ("STEPS", "SPEEDUP", "TOKENS", "COST", "WALL TIME")
    ]
    width = terminal.width()
    lines = terminal.table(head, rows, right=right, colour=story.outcome_colour, width=width)
    passed = sum(summary.outcome.value == "passed" for summary in summaries)
    many = "1 task" if len(summaries) == 1 else f"{len(summaries)} tasks"
    lines.append(f"{many}, {passed} passed{story.passed_over(tree.passed)}")
    if prices is not None and passed and None not in costs:
        total = sum(cost for cost in costs if cost is not None)
        lines.append(f"cost {total:.4g}, {total / passed:.4g} for every kernel that passed")
    terminal.page("\n".join(lines))


@click.command("show")
@TREE
@click.argument("op")
@click.argument("task", required=False)
@click.argument("step", required=False, type=click.IntRange(0))
@click.option(
    "--part", "parts", multiple=True, help="Only this part, whole: prompt, reasoning, result, reply …"
)
@_PRICES
@JSON
@answering
def show_command(
    log_dir: Path,
    op: str,
    task: str | None,
    step: int | None,
    parts: tuple[str, ...],
    prices: Path | None,
    as_json: bool,
) -> None:
    """The story of a TASK of an OP in the tree LOG_DIR, of one STEP, or one part of it.

    Without STEP every action has its beginning shown; with STEP, or --part, its texts are whole.

    \b
    otel-kernel-trace show ./kernel_trace_logs swish
    otel-kernel-trace show ./kernel_trace_logs swish 123 3
    otel-kernel-trace show ./kernel_trace_logs swish 123 3 --part result > kernel.py
    """
    tree, key = task_of(log_dir, op, task)
    found = tree.task(*key)
    actions = [action for action in found.actions if step is None or action.step == step]
    if not actions and step is not None:
        raise click.ClickException(f"task {key[1]!r} has no step {step}; its last is {found.summary.steps}")
    names = {name for action in actions for name in action.parts}
    if missing := [part for part in parts if part not in names]:
        there = ", ".join(sorted(names)) or "none"
        raise click.ClickException(f"there is no part {missing[0]!r}; there are: {there}")
    table = _prices(prices)
    if as_json:
        is_whole = step is not None or bool(parts)
        told = [
            documents.of_action(
                action,
                {n: story.text(tree, action, n) for n in action.parts if not parts or n in parts}
                if is_whole
                else None,
            )
            for action in actions
        ]
        cost = cost_of(tokens_by_model(found.actions), table)
        fields = documents.of_task(found, told, spent(found), cost if prices else None)
        say_json("show", tree, task=fields)
    elif parts and len(actions) == 1 and len(parts) == 1 and sys.stdout and not terminal.is_terminal():
        # As it is, for a file or another program.
        sys.stdout.buffer.write(tree.content(actions[0].parts[parts[0]]))
        sys.stdout.buffer.flush()
    else:
        is_whole = step is not None or bool(parts)
        terminal.page("\n".join(story.story(tree, found, actions, parts, table, is_whole=is_whole)))


@click.command("diff")
@TREE
@click.argument("op")
@click.argument("which", nargs=-1, metavar="[TASK] [A B]")
@click.option("--part", default="result", show_default=True, help="What is compared; of a result its code.")
@JSON
@answering
def diff_command(log_dir: Path, op: str, which: tuple[str, ...], part: str, as_json: bool) -> None:
    """How one attempt became another: by default the last that failed and the first good one.

    A and B are steps of TASK, or TASK:STEP each, for attempts of two tasks.

    \b
    otel-kernel-trace diff ./kernel_trace_logs swish
    otel-kernel-trace diff ./kernel_trace_logs swish 123 2 4
    otel-kernel-trace diff ./kernel_trace_logs swish 123:2 124:6 --part prompt
    """
    if len(which) == 2:
        tree = Tree(log_dir)
        before, after = (_attempt_named(tree, op, name) for name in which)
    elif len(which) in (0, 1, 3):
        tree, key = task_of(log_dir, op, which[0] if which else None)
        task = tree.task(*key)
        if len(which) == 3:
            before, after = (_attempt_at(task, name) for name in which[1:])
        else:
            pair = pair_of(attempts_of(task))
            if pair is None:
                raise click.ClickException(f"task {key[1]!r} has fewer than two attempts: nothing to compare")
            before, after = pair
    else:
        raise click.UsageError("give a TASK, a TASK and two steps, or TASK:STEP twice")
    texts = [_part_of(tree, attempt, part) for attempt in (before, after)]
    names = [_attempt_name(attempt) for attempt in (before, after)]
    lines = diff(*texts, *names)
    if as_json:
        ends = {"before": documents.of_attempt(before), "after": documents.of_attempt(after)}
        say_json("diff", tree, part=part, lines=list(lines), **ends)
        return
    if not lines:
        click.echo(f"{safe(names[0])} and {safe(names[1])} are the same")
        return
    terminal.page("\n".join(story.coloured(line) for line in lines))


@click.command("blame")
@TREE
@click.argument("op")
@click.argument("task", required=False)
@JSON
@answering
def blame_command(log_dir: Path, op: str, task: str | None, as_json: bool) -> None:
    """Which step brought each line of the final kernel, and what the Verifier said of that step.

    \b
    otel-kernel-trace blame ./kernel_trace_logs swish 123
    """
    tree, key = task_of(log_dir, op, task)
    attempts = attempts_of(tree.task(*key))
    good = [index for index, attempt in enumerate(attempts) if attempt.passed]
    attempts = attempts[: good[-1] + 1] if good else attempts
    if not attempts:
        raise click.ClickException(f"task {key[1]!r} has no attempt at a kernel")
    lines = blame((attempt, code_of(tree, attempt)) for attempt in attempts)
    if as_json:
        say_json("blame", tree, lines=documents.of_blame(lines))
        return
    names = {id(attempt): safe_line(_attempt_name(attempt), 60) for attempt in attempts}
    width = max((len(name) for name in names.values()), default=0)
    shown = []
    last: Attempt | None = None
    for number, line in enumerate(lines, 1):
        name = names[id(line.attempt)] if line.attempt is not last else ""
        last = line.attempt
        colour = {True: "green", False: "red", None: None}[line.attempt.passed]
        shown.append(f"{click.style(f'{name:{width}}', fg=colour)} {number:4} | {safe_text(line.text)}")
    terminal.page("\n".join(shown))


@click.command("compare")
@click.argument("before", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("after", type=click.Path(exists=True, file_okay=False, path_type=Path))
@JSON
@answering
def compare_command(before: Path, after: Path, as_json: bool) -> None:
    """Whether the tree AFTER is better than the tree BEFORE, op by op, and what that rests on.

    \b
    otel-kernel-trace compare ./logs/yesterday ./logs/today
    """
    trees = [Tree(path) for path in (before, after)]
    found = compare(*(tree.summaries() for tree in trees))
    if as_json:
        ops: list[Json] = [documents.of_comparison(one) for one in found]
        say_json("compare", trees[1], before_log_dir=trees[0].log_dir, ops=ops)
        return
    rows = [
        [
            one.op_name,
            f"{story.percent(one.before.pass_rate)} -> {story.percent(one.after.pass_rate)}",
            f"{speedup(one.before.best_speedup)} -> {speedup(one.after.best_speedup)}",
            f"{count(one.before.steps)} -> {count(one.after.steps)}",
            f"{count(one.before.tokens)} -> {count(one.after.tokens)}",
            "; ".join(
                [f"worse: {', '.join(one.regressed)}"] * bool(one.regressed)
                + [f"better: {', '.join(one.improved)}"] * bool(one.improved)
            )
            or ("the same" if one.p_value is not None else "-"),
            one.basis,
        ]
        for one in found
    ]
    head = ["OP", "PASSED", "BEST SPEEDUP", "STEPS TO PASS", "TOKENS TO PASS", "VERDICT", "RESTS ON"]
    lines = terminal.table(head, rows, colour=story.verdict_colour, width=terminal.width())
    lines.append("Speedups, steps and tokens are medians of the tasks that passed.")
    lines += errors_compared(found)
    terminal.page("\n".join(lines))


@click.command("recover")
@TREE
@JSON
@answering
def recover_command(log_dir: Path, as_json: bool) -> None:
    """What was going on when it died: actions that began and did not end, with their prompts.

    Of a pipeline that is running these are what it is at.

    \b
    otel-kernel-trace recover ./kernel_trace_logs
    """
    tree = Tree(log_dir)
    pending = [
        action
        for summary in tree.summaries()
        if summary.pending
        for action in tree.task(summary.op_name, summary.task_id).actions
        if action.is_pending
    ]
    last = tree.last_written()
    if as_json:
        told: list[Json] = [
            documents.of_action(action, {name: story.text(tree, action, name) for name in action.parts})
            for action in pending
        ]
        say_json("recover", tree, last_written_unix_nano=last, actions=told)
        return
    if not pending:
        click.echo("Every action that began has ended.")
        return
    many = "1 action" if len(pending) == 1 else f"{len(pending)} actions"
    lines = [f"{many} began and did not end. Last written: {story.moment(last)}."]
    for action in pending:
        name = click.style(safe_line(f"{action.op_name} · {action.task_id}"), bold=True)
        lines += ["", f"{name}  {story.headline(action)}"]
        since = duration(time.time_ns() - action.start) if action.start else "-"
        known = duration(last - action.start) if action.start and last and last > action.start else "0 s"
        lines.append(f"  began {story.moment(action.start)}, {since} ago; at work for {known} at least")
        lines += story.texts(tree, action, (), is_whole=True)
    terminal.page("\n".join(lines))


# Which attempt


def _attempt_named(tree: Tree, op: str, name: str) -> Attempt:
    task, colon, step = name.rpartition(":")
    if not colon:
        raise click.UsageError("with two attempts and no TASK, each is TASK:STEP")
    if (op, task) not in tree.tasks():
        raise click.ClickException(f"op {safe(op)!r} has no task {safe(task)!r}")
    return _attempt_at(tree.task(op, task), step)


def _attempt_at(task: Task, step: str) -> Attempt:
    attempts = attempts_of(task)
    for attempt in attempts:
        if step == str(attempt.step):
            return attempt
    there = ", ".join(str(attempt.step) for attempt in attempts) or "none"
    raise click.ClickException(
        f"step {safe(step)} of task {safe(task.summary.task_id)!r} is no attempt; these are: {there}"
    )


def _attempt_name(attempt: Attempt) -> str:
    verdict = {True: "passed", False: "failed", None: "not verified"}[attempt.passed]
    if attempt.verification and attempt.passed and attempt.verification.speedup is not None:
        verdict += f", {speedup(attempt.verification.speedup)}"
    return f"{attempt.action.task_id} step {attempt.step} {attempt.action.action_type} ({verdict})"


def _part_of(tree: Tree, attempt: Attempt, part: str) -> str:
    if part == "result":
        return code_of(tree, attempt)
    found = attempt.action.parts.get(part)
    if found is None:
        there = ", ".join(sorted(attempt.action.parts)) or "none"
        raise click.ClickException(f"step {attempt.step} has no part {part!r}; it has: {safe(there)}")
    return tree.text(found)


# Costs


def _prices(path: Path | None) -> Mapping[str, Price]:
    if path is None:
        return {}
    try:
        return read_prices(path)
    except ValueError as error:
        raise click.ClickException(safe(f"{path}: {error}")) from error


def _costs(tree: Tree, summaries: Sequence[Summary], path: Path | None) -> list[float | None]:
    if path is None:
        return [None] * len(summaries)
    prices = _prices(path)
    return [cost_of(tokens_by_model(tree.task(s.op_name, s.task_id).actions), prices) for s in summaries]
