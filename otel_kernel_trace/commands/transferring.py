"""Trees out to OTLP, and back: ``export``, ``import``, ``merge``."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from otel_kernel_trace.exporter import KernelTraceSpanExporter
from otel_kernel_trace.indexed import Passed, layout_in, layout_of
from otel_kernel_trace.layout import Layout
from otel_kernel_trace.transfer import Exported, Imported, export_jsonl, import_file, merge

_TREE = click.Path(exists=True, file_okay=False, path_type=Path)
_LAYOUT = click.option(
    "--layout",
    type=click.Choice(sorted(Layout.by_name)),
    help="Rule for the names of the files that are written.  "
    "[default: as in the tree that is there, else as in what is added]",
)


@click.command("export")
@click.argument("log_dir", type=_TREE)
@click.option("--jsonl", is_flag=True, help="As OTLP JSON lines, with all texts (the only format so far).")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="[default: stdout]",
)
def export_command(log_dir: Path, jsonl: bool, output: Path | None) -> None:
    """Write the tree LOG_DIR as a file that the Collector and Jaeger read.

    One span a line, in the OTLP JSON file format, with the texts of its files put back in.
    The tree is only read, and may be one that is still being written to.
    """
    if not jsonl:
        raise click.UsageError("say in which format: --jsonl")
    try:
        if output is None or str(output) == "-":
            stdout = getattr(sys.stdout, "buffer", None)
            if stdout is None:
                raise click.ClickException("stdout is closed")
            exported = export_jsonl(str(log_dir), stdout)
            stdout.flush()
        elif output.is_symlink() or (output.exists() and not output.is_file()):
            with output.open("wb") as file:  # a pipe or a link stays what it is
                exported = export_jsonl(str(log_dir), file)
        else:
            exported = _export_whole(log_dir, output)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nor may the flush at exit fail
        sys.exit(1)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    if not exported.spans:
        raise click.ClickException(_no_tree(log_dir))
    click.echo(f"{exported.spans} spans{_told(exported.passed)}", err=True)


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
            exporter = KernelTraceSpanExporter(log_dir, layout=layout, on_existing="continue")
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
        exporter = KernelTraceSpanExporter(log_dir, layout=layout, on_existing="continue")
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


def _export_whole(log_dir: Path, output: Path) -> Exported:
    """Under its name only when it is whole."""
    if not output.absolute().parent.is_dir():
        raise click.ClickException(f"there is no folder {output.parent} to write {output.name} to")
    fd, name = tempfile.mkstemp(dir=output.absolute().parent, prefix=".otel-kernel-trace.")
    try:
        with open(fd, "wb") as file:
            exported = export_jsonl(str(log_dir), file)
        if not exported.spans:
            raise click.ClickException(_no_tree(log_dir))
        os.chmod(name, output.stat().st_mode & 0o777 if output.exists() else 0o666 & ~_umask())
        os.replace(name, output)
    except BaseException:
        os.unlink(name)
        raise
    return exported


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


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
