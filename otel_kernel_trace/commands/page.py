"""The page on which a person reads a tree: ``report`` and ``serve``."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from otel_kernel_trace.commands.output import written
from otel_kernel_trace.commands.terminal import safe
from otel_kernel_trace.reader import NoTreeError, Tree

_TREE = click.Path(exists=True, file_okay=False, path_type=Path)
_EXTRA = {"jinja2", "markupsafe", "starlette", "uvicorn", "anyio", "h11"}
_MEGABYTE = 1_000_000


@click.command("report")
@click.argument("log_dir", type=_TREE)
@click.argument("op", required=False)
@click.argument("task", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="- is stdout.",
)
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    metavar="MB",
    help="Leave out texts that would make the file larger.",
)
def report_command(log_dir: Path, op: str | None, task: str | None, output: Path, most: int) -> None:
    """Write the tree LOG_DIR as one HTML file, to read in any browser or to send to somebody.

    Of everything in it, of one OP, or of one TASK. The file needs no network and no server.
    """
    with _extra_needed():
        from otel_kernel_trace.page.report import Reported, open_tree, write_report

    def write(file: BinaryIO) -> Reported:
        with _progress() as told:
            return write_report(
                tree, file, op_name=op, task_id=task, most_bytes=most * _MEGABYTE, progress=told
            )

    try:
        tree = open_tree(log_dir, op, task)
        reported = written(output, write)
    except KeyboardInterrupt:
        sys.exit(130)
    except (NoTreeError, OSError) as error:
        raise click.ClickException(safe(str(error))) from error
    told = f"{_count(reported.tasks, 'task')} with {_count(reported.texts, 'text')}"
    if reported.cut:
        told += f"; {reported.cut} of them cut"
    if reported.gone:
        told += f"; {reported.gone} missing"
    if reported.left_out:
        told += f"; {reported.left_out} left out at --most {most} MB: name an OP, or an OP and a TASK"
    click.echo(told if str(output) == "-" else f"{output}: {told}", err=True)


@click.command("serve")
@click.argument("log_dir", type=_TREE)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes any that is free."
)
@click.option(
    "--answer-to",
    metavar="HOST:PORT",
    multiple=True,
    help="Another name that browsers call it by, as with a forwarded port: localhost:9000. May be repeated.",
)
def serve_command(log_dir: Path, host: str, port: int, answer_to: tuple[str, ...]) -> None:
    """Show the tree LOG_DIR in a browser, and follow it while a pipeline writes it.

    Answers to its own name alone; 127.0.0.1, localhost and [::1] are always that.
    Whoever can reach another --host can read everything in the tree. Ctrl-C ends it.
    """
    with _extra_needed():
        from otel_kernel_trace.page.following import Following
        from otel_kernel_trace.page.hosts import allowed_hosts, url_of
        from otel_kernel_trace.page.serving import application, listen, run
    try:
        following = Following(Tree(log_dir, may_be_empty=True))
        with listen(host, port) as listening:
            bound: int = listening.getsockname()[1]
            title = os.path.basename(os.path.realpath(log_dir)) or "tree"
            allowed = allowed_hosts(host, bound, answer_to)
            app = application(following, title, host=host, port=bound, allowed=allowed)
            click.echo(f"{url_of(host, bound)}  (Ctrl-C ends it)")
            run(app, listening)
    except KeyboardInterrupt:
        sys.exit(130)
    except (NoTreeError, OSError) as error:
        hint = ": say another --port, 0 for any" if getattr(error, "errno", None) == errno.EADDRINUSE else ""
        raise click.ClickException(f"{error}{hint}") from error


@contextmanager
def _extra_needed() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        raise click.ClickException(
            f"{error.name} is missing: pip install 'otel-kernel-trace[cli]'"
        ) from error


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Shows how far it is, where somebody looks at it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, of: None
        return
    with click.progressbar(length=1, label="tasks", file=sys.stderr) as bar:

        def told(done: int, of: int) -> None:
            bar.length = of
            bar.update(done - bar.pos)

        yield told


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
