"""What the commands that read a tree share: which tree and task, how failures are told, and JSON."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec

import click

from otel_kernel_trace.commands import terminal
from otel_kernel_trace.commands.terminal import safe
from otel_kernel_trace.reader import NoTreeError, Tree, documents
from otel_kernel_trace.reader.documents import Json

_P = ParamSpec("_P")

TREE = click.argument("log_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
JSON = click.option(
    "--json", "as_json", is_flag=True, help="As JSON, for programs; docs/json.md has its fields."
)


def answering(command: Callable[_P, None]) -> Callable[_P, None]:
    """A command whose failures are a sentence, and whose colours are for terminals."""

    @functools.wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        terminal.set_colours(click.get_current_context())
        gc.disable()  # a command ends soon; looking for cycles among its values costs a tenth of its time
        try:
            command(*args, **kwargs)
        except NoTreeError as error:
            raise click.ClickException(safe(str(error))) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            raise click.ClickException(safe(str(error))) from error

    return run


def task_of(log_dir: Path, op: str, task: str | None) -> tuple[Tree, tuple[str, str]]:
    """The tree, and op and task there; without a task the op's only one."""
    if task is not None:
        try:
            return Tree(log_dir, only=(op, task)), (op, task)
        except NoTreeError:
            pass  # which there are says the whole tree
    tree = Tree(log_dir)
    tasks = [key[1] for key in tree.tasks() if key[0] == op]
    if not tasks:
        raise click.ClickException(no_op(tree, op))
    if task is None and len(tasks) == 1:
        return tree, (op, tasks[0])
    there = safe(_listed(tasks))
    if task is None:
        raise click.ClickException(f"op {safe(op)!r} has {len(tasks)} tasks, say which: {there}")
    raise click.ClickException(f"op {safe(op)!r} has no task {safe(task)!r}; there are: {there}")


def no_op(tree: Tree, op: str) -> str:
    """That there is no such op, and which there are."""
    ops = list(dict.fromkeys(key[0] for key in tree.tasks()))
    return f"there is no op {safe(op)!r}; there are: {safe(_listed(ops))}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def say_json(kind: str, tree: Tree, **fields: Json) -> None:
    """Write an answer as JSON."""
    click.echo(documents.text_of(documents.of_document(kind, tree.log_dir, **fields)))
