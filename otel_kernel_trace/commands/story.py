"""A task, its actions and their texts as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import click

from otel_kernel_trace.commands import terminal
from otel_kernel_trace.commands.findings import found
from otel_kernel_trace.commands.terminal import count, duration, safe_line, safe_text, speedup
from otel_kernel_trace.indexed import Passed
from otel_kernel_trace.reader import (
    STALL,
    Action,
    ModelCall,
    PlacedStage,
    Price,
    SpanId,
    Stage,
    Summary,
    Task,
    Tree,
    actions_around,
    cost_of,
    placed_stages,
    recurrences,
    spent,
    tokens_by_model,
)

_EXCERPT_LINES = {"prompt": 3, "reasoning": 3, "result": 8, "error_log": 6}
_SPENT = ("model", "compile", "verify", "waiting", "unaccounted")
_EXCERPT_BYTES = 65_536
_MAX_HIGHLIGHTED = 500_000
_HIDDEN = ("reply",)
"""Parts that are shown when they are asked for."""


def story(
    tree: Tree,
    task: Task,
    actions: Sequence[Action],
    parts: Sequence[str],
    prices: Mapping[str, Price],
    *,
    is_whole: bool,
) -> Iterator[str]:
    summary = task.summary
    outcome = click.style(summary.outcome.value, fg=terminal.COLOURS[summary.outcome.value], bold=True)
    facts = ["1 step" if summary.steps == 1 else f"{summary.steps} steps"]
    if summary.best_speedup is not None:
        facts.append(f"best {speedup(summary.best_speedup)}")
    if summary.tokens:
        facts.append(f"{count(summary.tokens.input)} tokens in, {count(summary.tokens.output)} out")
    cost = cost_of(tokens_by_model(task.actions), prices) if prices else None
    if cost is not None:
        facts.append(f"cost {cost:.4g}")
    name = click.style(safe_line(f"{summary.op_name} · {summary.task_id}"), bold=True)
    yield f"{name}  {outcome}  {', '.join(facts)}"
    times = spent(task)
    if times.total and not parts:
        shares = ((name, getattr(times, name)) for name in _SPENT)
        yield f"{duration(times.total)}: " + ", ".join(f"{name} {duration(value)}" for name, value in shares)
    if summary.stalled >= STALL and not parts:
        yield click.style(
            f"stalled: the last {summary.stalled} attempts failed with the same error", fg="yellow"
        )
    again = recurrences(task.actions)
    around = actions_around(task)
    calls: dict[SpanId, list[ModelCall]] = {}
    for call in task.model_calls:
        if inside := around.get((call.trace_id, call.parent_id)):
            calls.setdefault((inside.trace_id, inside.span_id), []).append(call)
    stages: dict[SpanId, list[PlacedStage]] = {}
    outside: list[PlacedStage] = []
    for placed in placed_stages(task):
        if placed.action:
            stages.setdefault((placed.action.trace_id, placed.action.span_id), []).append(placed)
        else:
            outside.append(placed)
    for action in actions:
        yield ""
        yield headline(action)
        if not parts:
            yield from found(action, again.get((action.step, action.action_type, action.copy)))
        key = (action.trace_id, action.span_id)
        for call in calls.get(key, ()) if not parts else ():
            yield click.style(safe_line(f"  {_call(call)}"), dim=True)
        for placed in stages.get(key, ()) if not parts else ():
            yield click.style(safe_line(f"  {'  ' * placed.depth}{_stage(placed.stage)}"), dim=True)
        yield from texts(tree, action, parts, is_whole=is_whole)
    if outside and not parts and len(actions) == len(task.actions):
        yield ""
        yield click.style("outside of all actions", bold=True)
        for placed in outside:
            yield click.style(safe_line(f"  {'  ' * placed.depth}{_stage(placed.stage)}"), dim=True)


def _call(call: ModelCall) -> str:
    took = None if call.start is None or call.end is None else call.end - call.start
    used = f", {count(call.tokens.input)} in, {count(call.tokens.output)} out" if call.tokens else ""
    return f"model call {call.model or call.name}: {duration(took)}{used} {call.error}".rstrip()


def _stage(stage: Stage) -> str:
    return f"stage {stage.name}: {duration(stage.duration)} {stage.error}".rstrip()


def headline(action: Action) -> str:
    verdict = {True: click.style("passed", fg="green"), False: click.style("failed", fg="red"), None: ""}
    facts = [verdict[action.passed], speedup(action.speedup) if action.speedup is not None else ""]
    if action.is_pending:
        facts.append(click.style("has not ended", fg="yellow"))
    elif action.duration is not None:
        facts.append(duration(action.duration))
    if action.passed is None and action.error:
        facts.append(click.style(safe_line(action.error, 100), fg="red"))
    if action.model or action.tokens:
        used = f"{count(action.tokens.input)} in, {count(action.tokens.output)} out" if action.tokens else ""
        facts.append(" ".join(filter(None, [safe_line(action.model, 60), used])))
    name = f"step {action.step}  {action.action_type}" + (f" ({action.copy})" if action.copy > 1 else "")
    return "  ".join([click.style(safe_line(name), bold=True), *filter(None, facts)])


def texts(tree: Tree, action: Action, parts: Sequence[str], *, is_whole: bool) -> Iterator[str]:
    for name in action.parts:
        if (parts and name not in parts) or (not parts and name in _HIDDEN):
            continue
        content = text(tree, action, name, None if is_whole else _EXCERPT_BYTES)
        if content is None:
            yield f"  {safe_line(name)}: its file is not there"
            continue
        if not content:
            continue
        lines = safe_text(content.rstrip("\n")).split("\n")
        shown = lines if is_whole else lines[: _EXCERPT_LINES.get(name, 3)]
        more = "" if len(shown) == len(lines) else " …"
        yield click.style(f"  {safe_line(name)}{more}", fg="cyan")
        is_code = name == "result" or name.startswith("source.")
        for line in _highlighted(shown) if is_code else shown:
            yield f"    {line}"
    if action.profile and not parts:
        told = ", ".join(f"{name} {value}" for name, value in action.profile.items())
        yield f"  {click.style('profile', fg='cyan')} {safe_line(told)}"


def _highlighted(lines: list[str]) -> list[str]:
    """Lines of code, with colours where there are to be any."""
    code = "\n".join(lines)
    if not click.get_current_context().color or len(code) > _MAX_HIGHLIGHTED:
        return lines
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import CppLexer, PythonLexer

    is_python = "def " in code or "import " in code
    shown = highlight(
        code, PythonLexer(stripnl=False) if is_python else CppLexer(stripnl=False), TerminalFormatter()
    )
    return str(shown).rstrip("\n").split("\n")


def text(tree: Tree, action: Action, name: str, most: int | None = None) -> str | None:
    """A part's text, or its first ``most`` bytes; None where its file can't be read."""
    try:
        return tree.text(action.parts[name], most)
    except OSError:
        return None


def now(summary: Summary) -> str:
    if summary.stalled >= STALL and summary.first_pass is None:
        return f"stalled: {summary.stalled} attempts, same error"
    if summary.pending:
        return f"step {summary.last_step} {summary.last} has not ended"
    if summary.first_pass is not None:
        return f"passed at step {summary.first_pass}"
    return f"step {summary.last_step} {summary.last}" if summary.last else "-"


def outcome_colour(column: int, text: str) -> str | None:
    return terminal.COLOURS.get(text) if column == 2 else None


def verdict_colour(column: int, text: str) -> str | None:
    if column != 5:
        return None
    return "red" if text.startswith("worse") else "green" if text.startswith("better") else None


def coloured(line: str) -> str:
    text = safe_text(line)
    if line.startswith(("---", "+++")):
        return click.style(text, bold=True)
    colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
    return click.style(text, fg=colour) if colour else text


def percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.0f} %"


def moment(nanoseconds: int | None) -> str:
    if not nanoseconds:
        return "at a time that is not known"
    return datetime.fromtimestamp(nanoseconds / 1e9).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def passed_over(passed: Passed) -> str:
    counts = {
        "unreadable lines of the index passed over": passed.unreadable,
        "strange files passed over": passed.strange,
    }
    return "".join(f"; {number} {what}" for what, number in counts.items() if number)
