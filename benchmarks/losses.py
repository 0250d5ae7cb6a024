"""What is on disk after a process has ended, well or badly: ours beside other ways to keep texts.

    pip install . opentelemetry-exporter-otlp-json-file 'opentelemetry-util-genai[upload] >= 1.2b0'
    python benchmarks/losses.py [--burst 100000] [--actions 200] [--columns NAME ...] [FOLDER]

Every cell is a process of its own that performs actions with prompts and replies of which
no two are alike, and says so of each when its span or invocation has ended. Afterwards an
action counts as recoverable if its whole prompt and its whole reply are on disk, byte for
byte. All ways run with their defaults, and may flush wherever the process ends normally.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import multiprocessing
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from otel_kernel_trace import KernelTracer, KernelTraceSpanExporter, attributes, configure
from otel_kernel_trace.indexed import Passed, indexed_spans, whole_attributes
from otel_kernel_trace.record import attributes_of
from otel_kernel_trace.store import Store

OP = "exp_add_op"
PROMPT = attributes.PART_PREFIX + attributes.PROMPT
RESULT = attributes.PART_PREFIX + attributes.RESULT

SMALL, LONG = 200, 5000
"""Characters of a text, in the burst and elsewhere."""
THINKING = 0.005
"""Seconds between actions, but for the burst: a model would take more."""
PATIENCE = 3.0
"""Seconds that a process which hangs at its end is given before it is terminated."""
TIMEOUT = 900.0
"""Seconds after which a process is taken for hopeless."""

PACKAGES = (
    "otel-kernel-trace",
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp-json-file",
    "opentelemetry-util-genai",
    "fsspec",
)


# --- actions


class Texts(NamedTuple):
    """What was asked and answered in one action."""

    prompt: str
    reply: str


def texts_of(number: int, chars: int) -> Texts:
    """The texts of an action; no other has them."""
    return Texts(_text(number, "prompt", chars), _text(number, "reply", chars))


def _text(number: int, name: str, chars: int) -> str:
    line = f"{hashlib.sha256(f'{number} {name}'.encode()).hexdigest()} é\r\n"
    return (f"{number} {name}\n" + line * (chars // len(line) + 1))[:chars]


def number_of(found: Texts, chars: int) -> int | None:
    """Which action it is whose texts these are; None if they are not whole."""
    digits = found.prompt.partition(" ")[0]
    number = int(digits) if digits.isdecimal() and len(digits) < 10 else -1
    return number if number >= 0 and found == texts_of(number, chars) else None


Perform = Callable[[int, Texts], None]
"""Performs an action; when it returns, the action has ended."""


# --- columns


@dataclass(frozen=True)
class Column:
    """A way to keep prompts and replies."""

    title: str
    perform_with: Callable[[TracerProvider, Path, bool], Perform]
    """Sets it up; with a folder to write in, and whether every action is a task of its own."""
    recovered: Callable[[Path, int], set[int]]
    """The actions whose texts, of so many characters, are whole in that folder."""
    modules: tuple[str, ...] = ()
    """What has to be installed."""
    environment: Callable[[Path], dict[str, str]] = lambda _: {}

    @property
    def is_installed(self) -> bool:
        return all(map(_is_there, self.modules))


def ours(provider: TracerProvider, folder: Path, one_task_each: bool) -> Perform:
    configure(folder)
    return with_tracer(provider, one_task_each)


def batch_and_tree(provider: TracerProvider, folder: Path, one_task_each: bool) -> Perform:
    provider.add_span_processor(BatchSpanProcessor(KernelTraceSpanExporter(folder)))
    return with_tracer(provider, one_task_each)


def batch_and_otlp(provider: TracerProvider, folder: Path, one_task_each: bool) -> Perform:
    from opentelemetry.exporter.otlp.json.file import FileSpanExporter

    provider.add_span_processor(BatchSpanProcessor(FileSpanExporter(folder / "spans.jsonl")))
    return with_tracer(provider, one_task_each)


def with_tracer(provider: TracerProvider, one_task_each: bool) -> Perform:
    """Actions through a KernelTracer."""
    all_in_one = KernelTracer(OP, "1", provider)

    def act(tracer: KernelTracer, texts: Texts) -> None:
        with tracer.coder(prompt=texts.prompt) as action:
            action.record(result=texts.reply)

    def perform(number: int, texts: Texts) -> None:
        if one_task_each:
            with KernelTracer(OP, f"{number}", provider) as tracer:
                act(tracer, texts)
        else:
            act(all_in_one, texts)

    return perform


def upload(provider: TracerProvider, _: Path, __: bool) -> Perform:
    """One inference an action, as an instrumentation of a model's client reports it."""
    from opentelemetry.util.genai.completion_hook import load_completion_hook
    from opentelemetry.util.genai.handler import TelemetryHandler
    from opentelemetry.util.genai.types import InputMessage, OutputMessage, TextPart

    handler = TelemetryHandler(
        tracer_provider=provider,
        completion_hook=load_completion_hook(),
        instrumentation_scope_name="benchmark",
    )

    def perform(_: int, texts: Texts) -> None:
        with handler.inference("scripted", request_model="scripted") as invocation:
            asked, answered = TextPart(content=texts.prompt), TextPart(content=texts.reply)
            invocation.input_messages = [InputMessage(role="user", parts=[asked])]
            invocation.output_messages = [
                OutputMessage(role="assistant", parts=[answered], finish_reason="stop")
            ]

    return perform


def upload_environment(folder: Path) -> dict[str, str]:
    return {
        "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK": "upload",
        "OTEL_INSTRUMENTATION_GENAI_UPLOAD_BASE_PATH": folder.as_uri(),
    }


def in_tree_and_index(folder: Path, chars: int) -> set[int]:
    """Both must have it: the files, read by their names, and the index with what it refers to."""
    return numbers(texts_in_tree(folder), chars) & numbers(texts_in_index(folder), chars)


def texts_in_tree(folder: Path) -> Iterator[Texts]:
    results = (folder / OP).glob("*_result.txt") if (folder / OP).is_dir() else ()
    for result in results:
        prompt = result.with_name(result.name.replace("_result.txt", "_prompt.txt"))
        if prompt.exists():
            yield Texts(read(prompt), read(result))


def texts_in_index(folder: Path) -> Iterator[Texts]:
    store, passed = Store(str(folder)), Passed()
    if folder.is_dir():
        for span in indexed_spans(store, passed):
            if attributes.PENDING not in attributes_of(span):
                given = whole_attributes(span, store, passed)
                yield Texts(str(given.get(PROMPT)), str(given.get(RESULT)))


def in_otlp_file(folder: Path, chars: int) -> set[int]:
    def texts() -> Iterator[Texts]:
        for line in read(folder / "spans.jsonl").splitlines():
            for span in spans_in(parsed(line)):
                given = {a["key"]: a["value"].get("stringValue", "") for a in span.get("attributes", [])}
                yield Texts(given.get(PROMPT, ""), given.get(RESULT, ""))

    return numbers(texts(), chars)


def spans_in(document: Any) -> Iterator[Any]:
    for resource in document.get("resourceSpans", []) if document else []:
        for scope in resource["scopeSpans"]:
            yield from scope["spans"]


def in_uploads(folder: Path, chars: int) -> set[int]:
    def texts() -> Iterator[Texts]:
        for inputs in folder.glob("*_inputs.json"):
            outputs = inputs.with_name(inputs.name.replace("_inputs.json", "_outputs.json"))
            asked, answered = (parsed(read(path)) for path in (inputs, outputs))
            if asked and answered:
                yield Texts(asked[0]["parts"][0]["content"], answered[0]["parts"][0]["content"])

    return numbers(texts(), chars)


def numbers(found: Iterator[Texts], chars: int) -> set[int]:
    return {number for texts in found if (number := number_of(texts, chars)) is not None}


def read(path: Path) -> str:
    return path.read_bytes().decode(errors="replace") if path.exists() else ""


def parsed(text: str) -> Any:
    """None for what a crash has cut."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package around it
        return False


COLUMNS = {
    "ours": Column("`configure()`", ours, in_tree_and_index),
    "batch-tree": Column(
        "`BatchSpanProcessor`, `KernelTraceSpanExporter`", batch_and_tree, in_tree_and_index
    ),
    "batch-otlp": Column(
        "`BatchSpanProcessor`, OTLP JSON file exporter",
        batch_and_otlp,
        in_otlp_file,
        ("opentelemetry.exporter.otlp.json.file",),
    ),
    "upload": Column(
        "`opentelemetry-util-genai`, upload hook",
        upload,
        in_uploads,
        ("opentelemetry.util.genai.handler", "fsspec"),
        upload_environment,
    ),
}


# --- rows

Work = Callable[[], None]
"""Performs all actions."""


@dataclass(frozen=True)
class Row:
    """A way in which a process runs and ends."""

    title: str
    note: str
    """Why something is lost."""
    run: Callable[[Work, TracerProvider], None]
    status: int = 0
    """Of the process, as ``subprocess`` tells it."""
    killed_by: signal.Signals | None = None
    """What the process gets when it has performed all actions."""
    patience: float = 0.0
    """Seconds that it has until then to end by itself."""
    is_burst: bool = False
    share: float = 1.0
    """Of the traces, sampled."""
    hangs: bool = False
    """Whether there is a backend that does not answer."""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def chars(self) -> int:
        return SMALL if self.is_burst else LONG


def ends_normally(work: Work, provider: TracerProvider) -> None:
    work()
    provider.shutdown()


def is_killed(work: Work, _: TracerProvider) -> None:
    work()
    signal.pause()


def leaves_at_once(work: Work, _: TracerProvider) -> NoReturn:
    work()
    os._exit(3)


def raises(work: Work, _: TracerProvider) -> NoReturn:
    work()
    raise RuntimeError("what nobody handles")


def forks(work: Work, provider: TracerProvider) -> None:
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    provider.shutdown()
    sys.exit(child.exitcode)


class Deadlocked(SpanExporter):
    """A backend that never answers."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        threading.Event().wait()
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        pass


ROWS = {
    "burst": Row(
        "burst of {:,} actions",
        "the processor drops the oldest when 2048 wait for its thread, which shares the interpreter with "
        "the program: one call for 512 spans keeps up, several for each do not; "
        "the hook drops what comes while 20 uploads wait",
        ends_normally,
        is_burst=True,
    ),
    "sigkill": Row(
        "SIGKILL",
        "what waits in memory goes with the process; in the processor 5 seconds of it, or 512 spans",
        is_killed,
        -signal.SIGKILL,
        signal.SIGKILL,
    ),
    "sigterm": Row(
        "SIGTERM",
        "likewise: its default action ends the process without Python's leave",
        is_killed,
        -signal.SIGTERM,
        signal.SIGTERM,
    ),
    "os-exit": Row("`os._exit`", "likewise: nothing is flushed", leaves_at_once, 3),
    "exception": Row("unhandled exception", "nothing need be: Python ends normally, and flushes", raises, 1),
    "fork": Row(
        "`multiprocessing` fork child",
        "it ends by `os._exit`; the hook's threads are waited for, the processor's are not",
        forks,
    ),
    "deadlock": Row(
        "deadlocked backend",
        "a backend before it in the same provider holds `shutdown` up for 30 s, and the process is "
        f"terminated {PATIENCE:.0f} s after its last action; 5 s later all would have been exported",
        ends_normally,
        -signal.SIGTERM,
        signal.SIGTERM,
        patience=PATIENCE,
        hangs=True,
    ),
    "sampling": Row("sampling 10 %", "spans that are not sampled are not exported", ends_normally, share=0.1),
    "limit": Row(
        "length limit 1024, texts of 5 kB",
        "spans have cut texts, which the tree marks and OTLP JSON does not; the hook's are in no span",
        ends_normally,
        environment={"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "1024"},
    ),
}


# --- a cell


class Cell(NamedTuple):
    """What came of a process."""

    performed: int
    recoverable: int

    def __str__(self) -> str:
        # Rounded down: only what is whole is 100 %.
        tenths = 1000 * self.recoverable // self.performed if self.performed else 0
        percent = "100" if self.recoverable == self.performed else f"{tenths / 10:.1f}"
        return f"{self.performed:,} / {self.recoverable:,} → {percent} %"


def cell(column: Column, row: Row, count: int, folder: Path, told: int) -> None:
    """In a process of its own: perform the actions, and write a byte to ``told`` after each."""
    sampler = ParentBased(TraceIdRatioBased(row.share)) if row.share < 1 else None
    provider = TracerProvider(sampler)
    trace.set_tracer_provider(provider)
    if row.hangs:
        # With its first span, not after 5 seconds.
        provider.add_span_processor(BatchSpanProcessor(Deadlocked(), schedule_delay_millis=100))
    perform = column.perform_with(provider, folder, row.share < 1)

    def work() -> None:
        for number in range(count):
            if not row.is_burst:
                time.sleep(THINKING)
            perform(number, texts_of(number, row.chars))
            os.write(told, b".")

    row.run(work, provider)


def measure(column: str, row: str, count: int, folder: Path) -> Cell:
    """Run a cell's process, end it as its row says, and see what is there.

    Raises:
        RuntimeError: it did not end as the row says.
    """
    of_column, of_row = COLUMNS[column], ROWS[row]
    written = folder / "written"
    written.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environment.update(of_column.environment(written), **of_row.environment)
    telling, told = os.pipe()
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, __file__, "cell", column, row, str(count), str(written), str(told)],
            env=environment,
            stderr=stderr,
            pass_fds=(told,),
        )
    os.close(told)
    watchdog = threading.Timer(TIMEOUT, process.kill)
    watchdog.start()
    performed = 0
    with open(telling, "rb", buffering=0) as acknowledged:
        while chunk := acknowledged.read(65536):
            performed += len(chunk)
            if performed >= count and of_row.killed_by:
                end(process, of_row.killed_by, of_row.patience)
    status = process.wait()
    watchdog.cancel()
    if status != of_row.status:
        tail = read(folder / "stderr")[-2000:]
        raise RuntimeError(f"{of_column.title}, {of_row.title}: ended with status {status}\n{tail}")
    recovered = of_column.recovered(written, of_row.chars)
    return Cell(performed, sum(number < performed for number in recovered))


def end(process: subprocess.Popen[bytes], by: signal.Signals, patience: float) -> None:
    if patience:
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
        else:
            return
    process.send_signal(by)


# --- the table


def versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def print_table(columns: Sequence[str], burst: int, actions: int, root: Path) -> None:
    say = partial(print, flush=True)
    say("| performed / recoverable | " + " | ".join(COLUMNS[name].title for name in columns) + " |")
    say("|---" + "|---:" * len(columns) + "|")
    for row in ROWS:
        count = burst if ROWS[row].is_burst else actions
        cells = []
        for column in columns:
            if not COLUMNS[column].is_installed:
                cells.append("not installed")
                continue
            folder = root / f"{row}-{column}"
            cells.append(str(measure(column, row, count, folder)))
            shutil.rmtree(folder)
        say(f"| {ROWS[row].title.format(count)} | " + " | ".join(cells) + " |")
    say(f"\n{versions()}. {THINKING * 1000:.0f} ms before each action, but for the burst.\n\nWhat is lost:")
    for each in ROWS.values():
        say(f"- {each.title.format(burst)}: {each.note}.")


def main() -> None:
    if sys.argv[1:2] == ["cell"]:
        column, row, count, folder, told = sys.argv[2:]
        cell(COLUMNS[column], ROWS[row], int(count), Path(folder), int(told))
        return
    memory = Path("/dev/shm")
    parser = argparse.ArgumentParser(description="What is on disk after a process has ended.")
    parser.add_argument("--burst", type=int, default=100_000, help="actions of the burst")
    parser.add_argument("--actions", type=int, default=200, help="actions of each other process")
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS), metavar="NAME")
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=memory if memory.is_dir() else Path(tempfile.gettempdir()),
        help="where to write, by default to memory where there is such a disk",
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="losses-", dir=arguments.folder) as root:
        print_table(arguments.columns, arguments.burst, arguments.actions, Path(root))


if __name__ == "__main__":
    main()
