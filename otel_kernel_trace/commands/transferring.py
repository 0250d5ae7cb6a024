"""Trees out to files and backends, and back: ``export``, ``import``, ``merge``."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from otel_kernel_trace.commands.output import written
from otel_kernel_trace.exporter import KernelTraceSpanExporter
from otel_kernel_trace.indexed import Passed, layout_in, layout_of
from otel_kernel_trace.layout import Layout
from otel_kernel_trace.transfer import Exported, Imported, export_jsonl, import_file, merge

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar


_TREE = click.Path(exists=True, file_okay=False, path_type=Path)
_LAYOUT = click.option(
    "--layout",
    type=click.Choice(sorted(Layout.by_name)),
    help="Rule for the names of the files that are written.  "
    "[default: as in the tree that is there, else as in what is added]",
)


@click.command("export")
@click.argument("log_dir", type=_TREE)
@click.option("--jsonl", is_flag=True, help="As OTLP JSON lines, with all texts.")
@click.option("--perfetto", is_flag=True, help="As a timeline for ui.perfetto.dev and chrome://tracing.")
@click.option("--ecs", is_flag=True, help="As JSON lines in the Elastic Common Schema.")
@click.option("--otlp", metavar="ENDPOINT", help="To a backend: http(s)://HOST:PORT or grpc(s)://HOST:PORT.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Of --jsonl, --perfetto and --ecs: the file.  [default: stdout]",
)
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Of --otlp: with every request."
)
@click.option(
    "--preview-chars",
    type=click.IntRange(min=0),
    help="Of --otlp: what is left of a long text, beside the way to its file.  [default: 1024]",
)
@click.option("--whole", is_flag=True, help="Of --otlp: send all of every text.")
@click.option(
    "--pending",
    is_flag=True,
    help="Of --otlp: send what has begun and not ended too, with its start for an end.",
)
@click.option("--again", is_flag=True, help="Of --otlp: send also what was sent before.")
def export_command(
    log_dir: Path,
    jsonl: bool,
    perfetto: bool,
    ecs: bool,
    otlp: str | None,
    output: Path | None,
    headers: tuple[str, ...],
    preview_chars: int | None,
    whole: bool,
    pending: bool,
    again: bool,
) -> None:
    """Write the tree LOG_DIR as a file for other tools, or send it to a backend.

    The tree is only read, and may be one that is still being written to.

    \b
    otel-kernel-trace export ./kernel_trace_logs --jsonl -o trace.jsonl
    otel-kernel-trace export ./kernel_trace_logs --perfetto -o timeline.json
    otel-kernel-trace export ./kernel_trace_logs --ecs -o trace.ecs.jsonl
    otel-kernel-trace export ./kernel_trace_logs --otlp http://localhost:4318
    otel-kernel-trace export ./kernel_trace_logs --otlp https://backend.example \\
        --header authorization="Bearer $TOKEN"

    --jsonl has one span a line, in the OTLP JSON file format that the Collector and Jaeger
    read, with the texts of the tree's files put back in. --perfetto has a row for each task,
    and no texts. --ecs has a line for each action, model call, stage, diagnostic and line of a
    builder's log, with the beginnings of texts. --otlp sends the spans with the ids and times
    that they have; what a backend has got is remembered, so that a run that was interrupted
    goes on, and a repeated one sends what is new.
    """
    if sum((jsonl, perfetto, ecs, otlp is not None)) != 1:
        raise click.UsageError("say one of --jsonl, --perfetto, --ecs and --otlp ENDPOINT")
    if otlp is not None:
        if output is not None:
            raise click.UsageError("--otlp writes no file: leave --output out")
        if whole and preview_chars is not None:
            raise click.UsageError("--whole leaves no previews: leave --preview-chars out")
        _send(log_dir, otlp, headers, preview_chars, whole=whole, pending=pending, again=again)
        return
    if headers or whole or pending or again or preview_chars is not None:
        raise click.UsageError("--header, --preview-chars, --whole, --pending and --again are of --otlp")
    if perfetto:
        _export_timeline(log_dir, output)
    elif ecs:
        _export_ecs(log_dir, output)
    else:
        _export_lines(log_dir, output)


def _export_lines(log_dir: Path, output: Path | None) -> None:
    def write(file: BinaryIO) -> Exported:
        with _progress("Writing", is_shown=not _is_terminal(output)) as progress:
            exported = export_jsonl(str(log_dir), file, progress.step, progress.expect)
        if not exported.spans:
            raise click.ClickException(_no_tree(log_dir))
        return exported

    exported = written(output, write)
    click.echo(f"{exported.spans} spans{_told(exported.passed)}", err=True)


def _export_timeline(log_dir: Path, output: Path | None) -> None:
    from otel_kernel_trace.perfetto import NoTimesError, Timeline, write_timeline
    from otel_kernel_trace.reader import NoTreeError, Tree

    def write(file: BinaryIO) -> Timeline:
        with _progress("Writing", is_shown=not _is_terminal(output)) as progress:
            return write_timeline(Tree(log_dir), file, progress.step, progress.expect)

    try:
        done = written(output, write)
    except (NoTreeError, NoTimesError) as error:
        raise click.ClickException(str(error)) from error
    told = f"{done.actions} actions and {done.model_calls} model calls of {done.tasks} tasks"
    if done.pending:
        told += f"; {done.pending} actions have not ended, and last until the last sign of life"
    if done.untimed:
        told += f"; {done.untimed} actions without a time left out"
    click.echo(told + _told(done.passed), err=True)


def _export_ecs(log_dir: Path, output: Path | None) -> None:
    from otel_kernel_trace.ecs import EcsLines, write_ecs
    from otel_kernel_trace.reader import NoTreeError, Tree

    def write(file: BinaryIO) -> EcsLines:
        with _progress("Writing", is_shown=not _is_terminal(output)) as progress:
            return write_ecs(Tree(log_dir), file, progress.step, progress.expect)

    try:
        done = written(output, write)
    except NoTreeError as error:
        raise click.ClickException(str(error)) from error
    told = f"{done.documents} documents of {done.tasks} tasks"
    if done.untimed:
        told += f"; {done.untimed} without a time left out"
    click.echo(told + _told(done.passed), err=True)


def _send(
    log_dir: Path,
    otlp: str,
    headers: tuple[str, ...],
    preview_chars: int | None,
    *,
    whole: bool,
    pending: bool,
    again: bool,
) -> None:
    from otel_kernel_trace.sending import Endpoint, SendError, headers_of, send_tree

    try:
        endpoint, given = Endpoint.of(otlp), headers_of(headers)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    try:
        with _progress("Sending") as progress:
            done = send_tree(
                str(log_dir),
                endpoint,
                headers=given,
                preview_chars=preview_chars,
                whole=whole,
                pending=pending,
                again=again,
                on_span=progress.step,
                on_count=progress.expect,
            )
    except (SendError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if not (done.spans or done.known or done.pending or done.without_id or done.rejected):
        raise click.ClickException(_no_tree(log_dir))
    told = f"{done.spans} spans sent to {endpoint.shown}"
    if done.known:
        told += f"; {done.known} were sent before"
    if done.pending:
        told += f"; {done.pending} that have not ended left out (--pending sends them)"
    if done.without_id:
        told += f"; {done.without_id} without ids left out"
    click.echo(told + _told(done.passed), err=True)
    if done.rejected:
        raise click.ClickException(
            f"{done.rejected} spans were refused: {done.reason or 'it does not say why'}"
        )


class _Progress:
    """How far an export has come."""

    def __init__(self, bar: ProgressBar[int] | None) -> None:
        self._bar = bar

    def expect(self, count: int) -> None:
        """Say how many steps there will be."""
        if self._bar is not None:
            self._bar.length = max(count, 1)
            self._bar.update_min_steps = max(count // 1000, 1)

    def step(self) -> None:
        """Say that one is done."""
        if self._bar is not None:
            self._bar.update(1)


@contextmanager
def _progress(label: str, *, is_shown: bool = True) -> Iterator[_Progress]:
    """A progress bar on stderr, where that is a terminal."""
    if not is_shown or sys.stderr is None or not sys.stderr.isatty():
        yield _Progress(None)
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:
        yield _Progress(bar)


def _is_terminal(output: Path | None) -> bool:
    is_stdout = output is None or str(output) == "-"
    return is_stdout and sys.stdout is not None and sys.stdout.isatty()


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--log-dir", required=True, type=click.Path(file_okay=False, path_type=Path), help="Root of the tree."
)
@click.option("--texts", type=_TREE, help="A tree that has the texts of which the spans have only previews.")
@_LAYOUT
def import_command(file: Path, log_dir: Path, texts: Path | None, layout: str | None) -> None:
    """Write the actions in FILE, any OTLP JSON, to the tree at --log-dir.

    FILE may come from `export`, from the Collector's file exporter or from anybody: one
    TracesData a line, or one in all; - is stdin. What the tree has already is passed over,
    and nothing in it is overwritten: actions whose step is taken go after the last.
    """
    try:
        with _seekable(file) as source:
            layout = layout or layout_of(str(log_dir)) or layout_in(source)
            if layout is None and texts is not None:
                layout = layout_of(str(texts))
            exporter = KernelTraceSpanExporter(log_dir, layout=layout, on_existing="continue", level="debug")
            source.seek(0)
            _tell(import_file(source, exporter, texts=None if texts is None else str(texts)), log_dir)
    except OSError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _seekable(file: Path) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        if str(file) == "-" and sys.stdin is None:
            raise click.ClickException("stdin is closed")
        source: BinaryIO = sys.stdin.buffer if str(file) == "-" else stack.enter_context(file.open("rb"))
        if not source.seekable():
            copy = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(source, copy)
            copy.seek(0)
            source = copy
        yield source


@click.command("merge")
@click.argument("log_dirs", nargs=-1, required=True, type=_TREE, metavar="LOG_DIR...")
@click.option(
    "--log-dir", required=True, type=click.Path(file_okay=False, path_type=Path), help="Root of the tree."
)
@_LAYOUT
def merge_command(log_dirs: tuple[Path, ...], log_dir: Path, layout: str | None) -> None:
    """Add the trees at LOG_DIR..., as of several machines, to the one at --log-dir.

    The trees are only read. May be repeated: what is there already is passed over. Nothing
    is overwritten: actions whose step another has go after the last of their task.
    """
    try:
        named = (layout_of(str(tree)) for tree in (log_dir, *log_dirs))
        layout = layout or next((name for name in named if name), None)
        exporter = KernelTraceSpanExporter(log_dir, layout=layout, on_existing="continue", level="debug")
        for source in log_dirs:
            if os.path.realpath(source) == exporter.log_dir:
                raise click.UsageError(f"{source} is the tree that is to be added to")
        total = Imported()
        for source in log_dirs:
            done = merge([str(source)], exporter)
            if not (done.actions or done.others or done.known or done.failed):
                raise click.ClickException(_no_tree(source))
            total.add(done)
        _tell(total, log_dir)
    except OSError as error:
        raise click.ClickException(str(error)) from error


def _no_tree(log_dir: Path) -> str:
    return f"there is no record in {log_dir}: is it the root of a tree?"


def _tell(done: Imported, log_dir: Path) -> None:
    told = f"{done.actions} actions and {done.others} other spans written to {log_dir}"
    if done.known:
        told += f"; {done.known} were there already"
    if done.foreign:
        told += f"; {done.foreign} spans are of other things"
    click.echo(told + _told(done.passed), err=True)
    if done.failed:
        raise click.ClickException(f"{done.failed} actions could not be written")
    if not (done.actions or done.others or done.known or done.foreign) and done.passed.unreadable:
        raise click.ClickException("it is no OTLP JSON: no span could be read in it")
    if not (done.actions or done.others or done.known):
        raise click.ClickException("there is no action in it: no span has kernel_trace attributes")


def _told(passed: Passed) -> str:
    counts = {
        "cut last lines passed over": passed.torn,
        "unreadable lines passed over": passed.unreadable,
        "texts missing": passed.missing,
        "files of other names passed over": passed.strange,
        "actions that later runs overwrote left out": passed.replaced,
        "texts changed since they were written": passed.changed,
    }
    return "".join(f"; {count} {what}" for what, count in counts.items() if count)
