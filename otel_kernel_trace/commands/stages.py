"""What the stages of a task took, and what became of them: ``stages``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from otel_kernel_trace.commands import story, terminal
from otel_kernel_trace.commands.answering import JSON, TREE, answering, say_json, task_of
from otel_kernel_trace.commands.terminal import duration, safe, safe_line
from otel_kernel_trace.reader import (
    PlacedStage,
    Stage,
    StageChange,
    Tree,
    changes_of,
    documents,
    placed_stages,
)
from otel_kernel_trace.reader.documents import Json
from otel_kernel_trace.reader.stages import FIGURES, Figure, difference_of, share_of

_SHOWN = {
    "count": "times",
    "failed": "failed",
    "wall_time_nano": "wall time",
    "cpu_time_seconds": "CPU",
    "children_cpu_time_seconds": "children's CPU",
    "peak_memory_bytes": "peak memory",
    "input_bytes": "in",
    "output_bytes": "out",
}


@click.command("stages")
@TREE
@click.argument("op")
@click.argument("task", required=False)
@click.argument("step", required=False, type=click.IntRange(0))
@click.option(
    "--before",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Compare with this tree, as it was before.",
)
@click.option("--before-task", help="Compare with this task.")
@click.option("--before-step", type=click.IntRange(0), help="Compare with this step.")
@JSON
@answering
def stages_command(
    log_dir: Path,
    op: str,
    task: str | None,
    step: int | None,
    before: Path | None,
    before_task: str | None,
    before_step: int | None,
    as_json: bool,
) -> None:
    """What the stages of a TASK of an OP in the tree LOG_DIR took, or those of one STEP.

    With one of the options --before: what became of them since another tree, task or step, which is the same
    but for what is said. Stages of one name at one place are taken together.

    \b
    otel-kernel-trace stages ./kernel_trace_logs swish
    otel-kernel-trace stages ./kernel_trace_logs swish 123 5 --before-step 3
    otel-kernel-trace stages ./logs/today swish 123 --before ./logs/yesterday
    """
    tree, placed = _stages_of(log_dir, op, task, step)
    if before is None and before_task is None and before_step is None:
        if as_json:
            say_json("stages", tree, stages=[documents.of_stage(one) for one in placed])
        else:
            terminal.page("\n".join(_table(placed)))
        return
    earlier, earlier_placed = _stages_of(
        before or log_dir, op, before_task or task, step if before_step is None else before_step
    )
    changes = changes_of(earlier_placed, placed)
    if as_json:
        compared: list[Json] = [documents.of_change(change) for change in changes]
        say_json("stages", tree, before_log_dir=earlier.log_dir, changes=compared)
    else:
        terminal.page("\n".join(_comparison(changes)))


def _stages_of(log_dir: Path, op: str, task: str | None, step: int | None) -> tuple[Tree, list[PlacedStage]]:
    tree, key = task_of(log_dir, op, task)
    found = tree.task(*key)
    placed = placed_stages(found, step)
    if not placed:
        where = f"task {safe(key[1])!r}" if step is None else f"step {step} of task {safe(key[1])!r}"
        raise click.ClickException(f"{where} in {safe(str(log_dir))} has no stages")
    return tree, placed


def _table(placed: Iterable[PlacedStage]) -> list[str]:
    head = [
        "STAGE",
        "STEP",
        "WALL TIME",
        "SHARE",
        "CPU",
        "CHILDREN'S CPU",
        "PEAK MEMORY",
        "IN",
        "OUT",
        "ENDED",
    ]
    rows = [
        [
            "  " * one.depth + one.stage.name,
            str(one.action.step) if one.action else "-",
            duration(one.stage.duration),
            story.percent(one.share),
            _seconds(one.stage.cpu_time),
            _seconds(one.stage.children_cpu_time),
            terminal.size(one.stage.peak_memory),
            terminal.size(one.stage.input_size),
            terminal.size(one.stage.output_size),
            _end_of(one.stage),
        ]
        for one in placed
    ]
    lines = terminal.table(head, rows, right=range(1, 9), colour=_colour, width=terminal.width())
    lines.append("Shares are of the stage around it, else of the step, else of the task.")
    return lines


def _comparison(changes: Iterable[StageChange]) -> list[str]:
    rows = []
    for change in changes:
        name = "  " * (len(change.path) - 1) + change.path[-1]
        for figure in FIGURES:
            before, after = figure.of(change.before), figure.of(change.after)
            if (before, after) == (None, None) or (figure.name == "failed" and not (before or after)):
                continue
            difference = difference_of(before, after)
            rows.append(
                [
                    name,
                    _SHOWN[figure.name],
                    _shown(figure, before),
                    _shown(figure, after),
                    _signed(figure, difference),
                    _percentage(share_of(difference, before)),
                ]
            )
            name = ""
    head = ["STAGE", "FIGURE", "BEFORE", "AFTER", "DIFFERENCE", "CHANGE"]
    return terminal.table(head, rows, right=range(2, 6), width=terminal.width())


def _shown(figure: Figure, value: float | None) -> str:
    if value is None:
        return "-"
    if figure.name.endswith("_nano"):
        return duration(round(value))
    if figure.name.endswith("_seconds"):
        return _seconds(value)
    return terminal.size(round(value)) if figure.name.endswith("_bytes") else str(value)


def _signed(figure: Figure, difference: float | None) -> str:
    if not difference:
        return _shown(figure, difference)
    return ("+" if difference > 0 else "-") + _shown(figure, abs(difference))


def _percentage(change: float | None) -> str:
    return "-" if change is None else f"{100 * change:+.1f} %"


def _seconds(value: float | None) -> str:
    return duration(None if value is None else round(value * 1e9))


def _end_of(stage: Stage) -> str:
    if stage.signal:
        return stage.error if "timed out" in stage.error else stage.signal
    if stage.exit_code is not None:
        return f"exit {stage.exit_code}"
    return safe_line(stage.error, 80)


def _colour(column: int, text: str) -> str | None:
    return "red" if column == 9 and text not in ("", "exit 0") else None
