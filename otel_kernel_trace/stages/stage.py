"""Stages of compiling, running and measuring: nested spans with times, memory and sizes.

A stage is no action: it has no step, and no file in the tree; the index tells of it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Span
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.current import CurrentTask, current_task, work_under
from otel_kernel_trace.levels import STAGE, Level, from_start, marked
from otel_kernel_trace.live import set_attributes, start_span
from otel_kernel_trace.stages.usage import usage_now, used_since
from otel_kernel_trace.within import within

Sized = str | bytes | bytearray | memoryview | os.PathLike[str] | int
"""What goes into a stage or comes out of it: a text, bytes, the path of a file, or a number of bytes.

A ``str`` is a text, never a path. A folder, and a file that is not there, have no size.
"""


class Stage:
    """A stage, while it goes on. Not thread-safe."""

    def __init__(self, span: Span, name: str, level: Level = Level.OFF) -> None:
        self.span = span
        """The OpenTelemetry span, for attributes and events of your own."""
        self.name = name
        self.level = level
        """How much of it is kept."""
        self.noted: dict[str, AttributeValue | None] = {}
        """Attributes that the span gets at the stage's end, instead of what is measured around it; None for
        those that it is not to have."""
        self._before = usage_now() if span.is_recording() else None
        self._ended: int | None = None

    def input(self, *given: Sized) -> None:
        """Note what goes in; only its size is kept. Sizes of several add up.

        Raises:
            TypeError: it is nothing that has a size.
        """
        self._add(attributes.STAGE_INPUT_SIZE, given)

    def output(self, *given: Sized) -> None:
        """Note what comes out, as :meth:`input`."""
        self._add(attributes.STAGE_OUTPUT_SIZE, given)

    def _add(self, name: str, given: tuple[Sized, ...]) -> None:
        if self._before is not None:
            so_far = self.noted.get(name)
            sizes = [size for one in given if (size := _size(one)) is not None]
            if sizes:
                self.noted[name] = sum(sizes, so_far if isinstance(so_far, int) else 0)

    def stop(self) -> None:
        """Say that the work is done: what comes until the stage's end is no part of its time.

        Reading the log of what was compiled, as a rule.
        """
        if self._before is None or self._ended is not None:
            return
        self._ended, used = time.time_ns(), used_since(self._before)
        measured = {
            attributes.STAGE_CPU_TIME: used.cpu_time,
            attributes.STAGE_CHILDREN_CPU_TIME: used.children_cpu_time,
            attributes.STAGE_PEAK_MEMORY: used.peak_memory,
        }
        self.noted = {**measured, **self.noted}

    def end(self, span: Span) -> int | None:
        """Put on the span what is known of the stage.

        Returns:
            When it ended, in nanoseconds since 1970.
        """
        self.stop()
        set_attributes(span, {key: value for key, value in self.noted.items() if value is not None})
        return self._ended


class Place(NamedTuple):
    """Where a stage begins."""

    task: CurrentTask
    context: Context | None
    """With the span around it; None: the current one."""


@contextlib.contextmanager
def stage(name: str, *, input: Sized | None = None, output: Sized | None = None) -> Iterator[Stage]:  # noqa: A002
    """A stage of the task that the current span is of; without a task nothing is recorded.

    For code that has no tracer at hand, such as a library's:

    >>> with otel_kernel_trace.stage("lower_to_ttir", input=source) as stage:
    ...     stage.output(ttir := lower(source))

    Args:
        name: what is done.
        input, output: as of :meth:`Stage.input` and :meth:`Stage.output`.

    Raises:
        TypeError: as of :meth:`Stage.input`.
    """
    task = current_task()
    with stage_at(None if task is None else Place(task, None), name, input=input, output=output) as begun:
        yield begun


@contextlib.contextmanager
def stage_at(
    place: Place | None,
    name: str,
    given: dict[str, AttributeValue] | None = None,
    *,
    input: Sized | None = None,  # noqa: A002 - what the word is for the user
    output: Sized | None = None,
) -> Iterator[Stage]:
    """A stage at a place, or one that is not recorded; ``given`` are attributes that it begins with."""
    name = attributes.text(name)
    around = within()
    level = Level.OFF if place is None else place.task.levels.of(STAGE, *(around.names if around else ()))
    if place is None or level < from_start(STAGE):
        yield Stage(INVALID_SPAN, name)
        return
    task = place.task
    of_stage = {**attributes.of_stage(task.op_name, task.task_id, name), **(given or {}), **marked(level)}
    span = start_span(task.tracer, name, place.context, of_stage)
    begun = Stage(span, name, level)
    with work_under(span, task, before_end=begun.end):
        if input is not None:
            begun.input(input)
        if output is not None:
            begun.output(output)
        yield begun


def _size(one: Sized) -> int | None:
    if isinstance(one, str):
        return len(one) if one.isascii() else len(one.encode("utf-8", "surrogatepass"))
    if isinstance(one, memoryview):
        return one.nbytes
    if isinstance(one, (bytes, bytearray)):
        return len(one)
    if isinstance(one, int):
        return int(one)
    if isinstance(one, os.PathLike):
        try:
            there = os.stat(one)
        except (OSError, ValueError):
            return None
        return there.st_size if stat.S_ISREG(there.st_mode) else None
    raise TypeError(f"a text, bytes, the path of a file or a number of bytes has a size, not {one!r}")
