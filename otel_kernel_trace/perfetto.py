"""A tree as a timeline, in the Trace Event format that Perfetto and chrome://tracing open.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

Events of a thread have to nest; Perfetto drops one that overlaps another. So what goes on
at once gets threads of its own, and inside another action there is only what it began.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import count
from typing import BinaryIO, Final

from otel_kernel_trace.indexed import Passed
from otel_kernel_trace.reader import Action, ModelCall, Stage, Task, Tree
from otel_kernel_trace.version import __version__

_DAY: Final = 86_400_000_000_000
_MAX_ERROR_CHARS = 200
_MAX_NESTING = 64
"""Spans between an action and one around it."""

_JUDGES = "judges"
_FAILED, _PASSED, _PENDING = "terrible", "good", "grey"
"""Names of colours that chrome://tracing has; Perfetto chooses its own."""


class NoTimesError(Exception):
    """Nothing in a tree has a time."""


@dataclass(slots=True)
class Timeline:
    """What was written."""

    tasks: int = 0
    actions: int = 0
    stages: int = 0
    model_calls: int = 0
    pending: int = 0
    """Of the actions, those that have not ended."""
    untimed: int = 0
    """Actions that have no time, and were left out."""
    passed: Passed = field(default_factory=Passed)


Args = dict[str, object]

_Timed = Action | Stage | ModelCall


@dataclass(slots=True)
class _Slice:
    """Something that took time. Times are in nanoseconds since 1970."""

    name: str
    start: int
    end: int
    args: Args
    span_id: str = ""
    parent_id: str = ""
    judges: str = ""
    colour: str = ""


def write_timeline(
    tree: Tree,
    out: BinaryIO,
    on_task: Callable[[], object] = lambda: None,
    on_count: Callable[[int], object] = lambda _: None,
) -> Timeline:
    """Write a tree as a timeline: a process a task, threads for its runs, actions, stages and model calls.

    What has not ended lasts until the last that is known of its run. Times are in
    microseconds from a midnight (UTC) before the first, which ``otherData`` tells: as numbers
    since 1970 they would have no room for nanoseconds.

    Args:
        tree: what to write.
        out: where to.
        on_task: called after every task.
        on_count: called once, before the first, with the number of tasks.

    Raises:
        NoTimesError: nothing in the tree has a time. Nothing was written.
        OSError: a file can't be read, or ``out`` not be written.
    """
    first = min((one.start for one in tree.summaries() if one.start is not None), default=None)
    if first is None:
        raise NoTimesError(
            f"nothing in {tree.log_dir} has a time: it has no index, and names of files tell none"
        )
    origin = (first // _DAY - 1) * _DAY
    done, ids, flows = Timeline(passed=tree.passed), count(1), count(1)
    tasks = tree.tasks()
    on_count(len(tasks))
    out.write(b'{"traceEvents":[')
    separator = b"\n"
    for key in tasks:
        for event in _events_of(tree.task(*key), origin, ids, flows, done):
            out.write(separator + event.encode())
            separator = b",\n"
        on_task()
    about = {
        "origin": datetime.fromtimestamp(origin // 1_000_000_000, timezone.utc).isoformat(),
        "origin_unix_nano": str(origin),
        "written_by": f"otel-kernel-trace {__version__}",
    }
    out.write(b'\n],"otherData":' + json.dumps(about).encode() + b"}\n")
    return done


def _events_of(
    task: Task, origin: int, ids: Iterator[int], flows: Iterator[int], done: Timeline
) -> Iterator[str]:
    """The events of a task, each as JSON. Ids are its own among those of all: Perfetto takes
    threads of one id for the same, whatever their process."""
    last = _last_signs(task)
    timed = [action for action in task.actions if action.start is not None]
    done.untimed += len(task.actions) - len(timed)
    actions = [_of_action(action, last) for action in timed]
    stages = [_of_stage(stage, last) for stage in task.stages if stage.start is not None]
    calls = [_of_call(call, last) for call in task.model_calls if call.start is not None]
    if not (actions or stages or calls or task.runs):
        return
    done.tasks += 1
    done.actions += len(actions)
    done.stages += len(stages)
    done.model_calls += len(calls)
    done.pending += sum(action.is_pending for action in timed)
    parents = {one.span_id: one.parent_id for one in (*actions, *stages, *calls) if one.span_id}

    pid = next(ids)
    summary = task.summary
    yield _about(pid, None, "process_name", {"name": f"{summary.op_name} · {summary.task_id}"})
    yield _about(pid, None, "process_sort_index", {"sort_index": done.tasks})
    groups = (
        ("task", _runs_of(task, last)),
        ("actions", actions),
        ("stages", stages),
        ("model calls", calls),
    )
    threads: dict[str, int] = {}
    """By span id."""
    judgements: list[_Slice] = []
    starts: dict[str, int] = {}
    for group, slices in groups:
        slices.sort(key=lambda one: (one.start, -one.end))
        lanes, tids = _Lanes(), list[int]()
        for one in slices:
            lane = lanes.place(one, *_as_read(one, origin), parents)
            if lane == len(tids):
                tid = next(ids)
                tids.append(tid)
                yield _about(pid, tid, "thread_name", {"name": f"{group} {lane + 1}" if lane else group})
                yield _about(pid, tid, "thread_sort_index", {"sort_index": tid})
            yield _complete(one, group, pid, tids[lane], origin)
            if one.judges:
                judgements.append(one)
            if one.span_id:
                threads[one.span_id], starts[one.span_id] = tids[lane], one.start
    for one in judgements:
        # An arrow from what was judged to the judgement; both ends are bound by their start.
        begin = starts.get(one.judges)
        if begin is not None and begin <= one.start and one.span_id in threads:
            flow = next(flows)
            yield _flow("s", flow, begin, pid, threads[one.judges], origin)
            yield _flow("f", flow, one.start, pid, threads[one.span_id], origin)


def _last_signs(task: Task) -> dict[str, int]:
    """By run, when the last happened that is known of it."""
    last: dict[str, int] = {}
    things: list[_Timed] = [*task.actions, *task.stages, *task.model_calls]
    for one in things:
        for moment in (one.start, one.end):
            if moment is not None:
                last[one.trace_id] = max(last.get(one.trace_id, moment), moment)
    return last


def _runs_of(task: Task, last: Mapping[str, int]) -> list[_Slice]:
    """A task's runs; of one that has not ended, what is known by its actions."""
    summary = task.summary
    args: Args = {"outcome": summary.outcome.value, "steps": summary.steps}
    if summary.best_speedup is not None and math.isfinite(summary.best_speedup):
        args["best_speedup"] = summary.best_speedup
    if summary.tokens:
        args["input_tokens"], args["output_tokens"] = summary.tokens.input, summary.tokens.output
    colour = {"passed": _PASSED, "failed": _FAILED}.get(summary.outcome.value, "")
    ended = [(start, end) for start, end in task.runs if end is not None]
    runs = [_Slice("task", start, max(start, end), args, colour=colour) for start, end in ended]
    for run, start in _begun(task, _Covered(ended)).items():
        pending = {**args, "pending": True}
        runs.append(_Slice("task", start, max(start, last.get(run, start)), pending, colour=_PENDING))
    return runs


def _begun(task: Task, covered: _Covered) -> dict[str, int]:
    """By trace id, the start of runs that have no end."""
    begun: dict[str, int] = {}
    for action in task.actions:
        if action.start is not None and not covered.has(action.start):
            begun[action.trace_id] = min(begun.get(action.trace_id, action.start), action.start)
    return begun


class _Covered:
    """Whether a moment lies within one of several intervals."""

    def __init__(self, intervals: Iterable[tuple[int, int]]) -> None:
        self._merged: list[tuple[int, int]] = []
        for start, end in sorted(intervals):
            if self._merged and start <= self._merged[-1][1]:
                self._merged[-1] = (self._merged[-1][0], max(end, self._merged[-1][1]))
            else:
                self._merged.append((start, end))

    def has(self, moment: int) -> bool:
        at = bisect_right(self._merged, (moment, math.inf)) - 1
        return at >= 0 and moment <= self._merged[at][1]


def _of_action(action: Action, last: Mapping[str, int]) -> _Slice:
    args: Args = {"step": action.step}
    if action.copy > 1:
        args["copy"] = action.copy
    if action.agent is not None:
        args["agent"] = action.agent.value
    if action.passed is not None:
        args["verdict"] = "passed" if action.passed else "failed"
    if action.speedup is not None and math.isfinite(action.speedup):
        args["speedup"] = action.speedup
    if action.model:
        args["model"] = action.model
    if action.tokens:
        args["input_tokens"], args["output_tokens"] = action.tokens.input, action.tokens.output
    if action.error:
        args["error"] = _short(action.error)
    for name in ("framework", "impl_type"):
        if value := getattr(action, name):
            args[name] = value
    if action.is_pending:
        args["pending"] = True
    paths = {part.name: part.path for part in action.parts.values() if part.path and part.offset is None}
    if paths:
        args["parts"] = paths
    if action.span_id:
        args["trace_id"], args["span_id"] = action.trace_id, action.span_id
    colour = _PENDING if action.is_pending else _PASSED if action.passed else _FAILED if action.error else ""
    start, end = _times(action, last)
    return _Slice(
        action.action_type, start, end, args, action.span_id, action.parent_id, action.judges, colour
    )


def _of_call(call: ModelCall, last: Mapping[str, int]) -> _Slice:
    args: Args = {}
    if call.model:
        args["model"] = call.model
    if call.tokens:
        args["input_tokens"], args["output_tokens"] = call.tokens.input, call.tokens.output
    if call.error:
        args["error"] = _short(call.error)
    if call.end is None:
        args["pending"] = True
    if call.span_id:
        args["trace_id"], args["span_id"] = call.trace_id, call.span_id
    start, end = _times(call, last)
    colour = _FAILED if call.error else ""
    return _Slice(call.name or call.model, start, end, args, call.span_id, call.parent_id, colour=colour)


def _of_stage(stage: Stage, last: Mapping[str, int]) -> _Slice:
    figures: dict[str, int | float | str | None] = {
        "cpu_seconds": stage.cpu_time,
        "children_cpu_seconds": stage.children_cpu_time,
        "peak_memory_bytes": stage.peak_memory,
        "input_bytes": stage.input_size,
        "output_bytes": stage.output_size,
        "exit_code": stage.exit_code,
        "signal": stage.signal or None,
        "command": _short(" ".join(stage.command)) or None,
        "macros": _short(" ".join(stage.macros)) or None,
        "error": _short(stage.error) or None,
    }
    args: Args = {name: value for name, value in figures.items() if value is not None}
    if stage.span_id:
        args["trace_id"], args["span_id"] = stage.trace_id, stage.span_id
    start, end = _times(stage, last)
    colour = _FAILED if stage.error else ""
    return _Slice(stage.name, start, end, args, stage.span_id, stage.parent_id, colour=colour)


def _times(one: _Timed, last: Mapping[str, int]) -> tuple[int, int]:
    start = one.start or 0
    end = last.get(one.trace_id, start) if one.end is None else one.end
    return start, max(start, end)


class _Lanes:
    """Threads, so that what is in one of them nests."""

    def __init__(self) -> None:
        self._open: list[list[tuple[int, str]]] = []
        """By thread, ends and span ids of what has not ended at the last start; the innermost is the last."""

    def place(self, one: _Slice, start: int, end: int, parents: Mapping[str, str]) -> int:
        """The thread for a slice; they come by start.

        Args:
            one: the slice.
            start, end: of it, as a reader of the file has them.
            parents: span ids of what is around spans, as far as it is known.
        """
        around = _around(one, parents)
        free = None
        for lane, inside in enumerate(self._open):
            while inside and inside[-1][0] <= start:
                inside.pop()
            if inside and inside[-1][1] in around and end <= inside[-1][0]:
                inside.append((end, one.span_id))
                return lane
            if not inside and free is None:
                free = lane
        if free is None:
            free = len(self._open)
            self._open.append([])
        self._open[free].append((end, one.span_id))
        return free


def _as_read(one: _Slice, origin: int) -> tuple[int, int]:
    """Start and end of a slice as a reader has them: from doubles, which after 104 days are no more exact."""
    start = max(one.start, origin)
    begin = round((start - origin) / 1000 * 1000)
    return begin, begin + round(max(one.end - start, 0) / 1000 * 1000)


def _around(one: _Slice, parents: Mapping[str, str]) -> Sequence[str]:
    found: list[str] = []
    here = one.parent_id
    while here and len(found) < _MAX_NESTING:
        found.append(here)
        here = parents.get(here, "")
    return found


def _complete(one: _Slice, group: str, pid: int, tid: int, origin: int) -> str:
    start = max(one.start, origin)
    times = f'"ts":{_microseconds(start - origin)},"dur":{_microseconds(max(one.end - start, 0))}'
    colour = f',"cname":"{one.colour}"' if one.colour else ""
    # Perfetto reads the times first, and not every version of it all that JSON has in strings before them.
    return (
        f'{{"ph":"X",{times},"pid":{pid},"tid":{tid},"cat":"{group}"{colour},'
        f'"name":{_json(one.name)},"args":{_json(one.args)}}}'
    )


def _flow(phase: str, flow: int, moment: int, pid: int, tid: int, origin: int) -> str:
    binding = ',"bp":"e"' if phase == "f" else ""
    ts = _microseconds(max(moment - origin, 0))
    return (
        f'{{"ph":"{phase}","ts":{ts},"pid":{pid},"tid":{tid},"id":{flow}{binding},'
        f'"cat":"{_JUDGES}","name":"{_JUDGES}"}}'
    )


def _about(pid: int, tid: int | None, name: str, args: Args) -> str:
    thread = "" if tid is None else f',"tid":{tid}'
    return f'{{"ph":"M","pid":{pid}{thread},"name":"{name}","args":{_json(args)}}}'


def _microseconds(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _json(value: object) -> str:
    text = _encoded(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _encoded(_without_surrogates(value))
    return text


def _without_surrogates(value: object) -> object:
    """What UTF-8 can't hold as the files of a tree have it."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(item) for name, item in value.items()}
    return value


def _short(error: str) -> str:
    line = next((line for line in error.splitlines() if line.strip()), "").strip()
    return line if len(line) <= _MAX_ERROR_CHARS else line[: _MAX_ERROR_CHARS - 1] + "…"
