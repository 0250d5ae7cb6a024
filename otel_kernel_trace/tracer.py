"""Spans around the live work of agents."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import Span

from otel_kernel_trace import attributes
from otel_kernel_trace.actions import ActionType, Agent, agent_of, check_of
from otel_kernel_trace.current import CurrentTask, in_task, note_exception, work_under
from otel_kernel_trace.findings import findings_in
from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.levels import (
    LEVEL_VARIABLE,
    Level,
    component_of,
    from_start,
    kept,
    marked,
    read_levels,
)
from otel_kernel_trace.live import set_attributes, start_span, whole_of
from otel_kernel_trace.propagation import Carried, arrived, environment_of, headers_of, without_task
from otel_kernel_trace.sampling import keep_steps
from otel_kernel_trace.skipped import Judged, Skipped, SkippedSteps
from otel_kernel_trace.stages.stage import Place, Sized, Stage, stage_at
from otel_kernel_trace.task import TaskSpan
from otel_kernel_trace.version import __version__
from otel_kernel_trace.within import Within, action_of
from otel_kernel_trace.working import Action, SkippedAction, SkippedVerifier, VerifierAction

if TYPE_CHECKING:
    from otel_kernel_trace.stages.runs import Run

_logger = logging.getLogger("otel_kernel_trace")
_has_warned: list[bool] = []

_ERROR_LOG = attributes.PART_PREFIX + attributes.ERROR_LOG
_LONGEST = 10**9 - 1
"""A step that takes the most room in a header."""


class KernelTracer:
    """Spans for the actions of one task, around the work itself, so that durations are real.

    >>> tracer = KernelTracer("swish", "123")
    >>> with tracer.coder(prompt="Write swish in Triton.") as action:
    ...     action.record(result="the model's reply", reasoning="its thoughts")

    It makes spans and nothing else: files come where ``tracer_provider`` has a
    :class:`KernelTraceSpanExporter`. The actions stand under a root span,
    ``kernel_task``, which begins with the first of them and ends with the tracer's own
    ``with`` block, by :meth:`close`, else when the tracer is collected or at exit. An
    exception inside an action makes its span an error, is noted there, and passes on.

    Thread-safe. In asyncio, spans nest by the asyncio task that they run in.

    Args:
        op_name: operator that the kernel computes.
        task_id: this attempt to produce one kernel.
        tracer_provider: whose processors get the spans; default: the global one.
        level: how much is recorded of what, as ``info,verifier=debug,designer=off``; see
            :mod:`otel_kernel_trace.levels`. Environment: ``KERNEL_TRACE_LEVEL``; default
            ``info``, which is all. Actions below their level have a number and no span; one
            that raises or gives an ``error_log`` gets its span when it ends, unless it is off.

    Raises:
        ValueError, TypeError: ``level`` can't be used.
    """

    def __init__(
        self,
        op_name: str,
        task_id: str,
        tracer_provider: trace.TracerProvider | None = None,
        *,
        level: str | None = None,
    ) -> None:
        self.op_name = op_name
        self.task_id = task_id
        self._level = level
        self._levels = read_levels(level)
        self._tracer = trace.get_tracer("otel_kernel_trace", __version__, tracer_provider=tracer_provider)
        self._task = TaskSpan(attributes.of_task(op_name, task_id))
        self._here = CurrentTask(
            attributes.text(op_name), attributes.text(task_id), self._tracer, self._levels
        )
        self._tracer_provider = tracer_provider
        self._description: attributes.Attributes = {}
        """For the actions here, where the root span is another process's."""
        self._step = 0
        self._last_kept: int | None = None
        self._skipped: SkippedSteps | None = None
        self._inside_skipped: tuple[Context, Within, Context] | None = None
        """The context inside of a skipped action, and what it was made of."""
        self._last: Judged | None = None
        self._lock = threading.RLock()
        after_fork_in_child(self)

    def designer(
        self, *, prompt: str | None = None, action_type: ActionType = ActionType.DO_DESIGNER
    ) -> contextlib.AbstractContextManager[Action]:
        """A Designer at work.

        Raises:
            ValueError: ``action_type`` is not a Designer's.
        """
        _check_agent(action_type, Agent.DESIGNER)
        return self._agent(action_type.name, prompt)

    def coder(
        self, *, prompt: str | None = None, action_type: ActionType = ActionType.DO_CODER
    ) -> contextlib.AbstractContextManager[Action]:
        """A Coder at work.

        Raises:
            ValueError: ``action_type`` is not a Coder's.
        """
        _check_agent(action_type, Agent.CODER)
        return self._agent(action_type.name, prompt)

    def action(self, name: str, *, prompt: str | None = None) -> contextlib.AbstractContextManager[Action]:
        """Any other agent at work; files and spans bear its name."""
        return self._agent(name, prompt)

    def verifier(
        self, *, framework: str | None = None, impl_type: str | None = None
    ) -> contextlib.AbstractContextManager[VerifierAction]:
        """A Verifier at work.

        Args:
            framework: what the reference task is written in: ``torch``, ``numpy`` …
            impl_type: what the kernel is written in: ``triton``, ``numba`` …
        """
        if self._levels.of_action(ActionType.VERIFY.name) is Level.OFF:
            return SkippedVerifier(self, ActionType.VERIFY.name, Level.OFF)
        return self._verifier(attributes.of_verification({"framework": framework, "impl_type": impl_type}))

    @contextlib.contextmanager
    def conductor(
        self, *, prompt: str | None = None, judges: Action | VerifierAction | None = None
    ) -> Iterator[Action]:
        """The Conductor judging an action.

        Args:
            prompt: what it is asked.
            judges: the action; default: the one of this tracer that began last.

        Raises:
            ValueError: on entering, where there is no such action, or none that a
                Conductor's check is for.
            TypeError: ``judges`` is no action.
        """
        if judges is not None and not isinstance(judges, (Action, VerifierAction)):
            raise TypeError(f"judges is what `with tracer.coder() as action` gives, not {judges!r}")
        judged = self._last if judges is None else judges
        if judged is None:
            raise ValueError("there is no action yet that the Conductor could judge")
        check = _check_of(judged.action_type)
        level = self._levels.of_action(check)
        if level < from_start(Agent.CONDUCTOR.value):
            with SkippedAction(self, check, level, judged) as skipped:
                yield skipped
            return
        self._keep_skipped()
        with self._span(check, judged.step, attributes.of_parts({"prompt": prompt}), judged) as span:
            yield Action(span, judged.step, check, level)

    @contextlib.contextmanager
    def stage(
        self,
        name: str,
        *,
        input: Sized | None = None,  # noqa: A002 - what the word is for the user
        output: Sized | None = None,
    ) -> Iterator[Stage]:
        """A stage of compiling, running or measuring: a span with times, memory and sizes, and no action.

        It stands under the action or the stage that is at work here, else under the task's root.

        >>> with tracer.stage("lower_to_ttir", input=source) as stage:
        ...     stage.output(ttir := lower(source))

        Args:
            name: what is done.
            input, output: what goes in and comes out, of which only the size is kept: a text,
                bytes, the path of a file, or a number of bytes.

        Raises:
            TypeError: on entering, where ``input`` or ``output`` is nothing that has a size.
        """
        if "opentelemetry.sdk.trace" in sys.modules:  # else nothing is recorded
            _load_what_runs_need()
        with stage_at(self._place(), name, input=input, output=output) as begun:
            yield begun

    def run(
        self,
        args: Sequence[str | bytes | os.PathLike[str]],
        *,
        name: str | None = None,
        timeout: float | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        input: str | bytes = b"",  # noqa: A002 - as of subprocess.run
    ) -> Run:
        """Run a command as a stage; :func:`otel_kernel_trace.stages.runs.run` has the details.

        >>> run = tracer.run(["nvcc", "-c", "swish.cu"], timeout=60)
        >>> for diagnostic in run.diagnostics:
        ...     print(diagnostic.line, diagnostic.message)

        Args:
            args: the program and its arguments; no shell is there.
            name: of the stage; default: the program's.
            timeout: seconds after which it is killed, with all that it started.
            cwd: folder in which it runs.
            env: its environment; default: this process's. It is recorded nowhere.
            input: what it reads; without it there is nothing to be read.

        Raises:
            OSError: the program is not there, or can't be run, as of ``subprocess.run``.
            TypeError, ValueError: ``args`` is no list of words, or is empty.
        """
        from otel_kernel_trace.stages.runs import run  # with all that reads logs

        return run(self._place(), args, name=name, timeout=timeout, cwd=cwd, env=env, input=input)

    def describe(
        self,
        *,
        engine_version: str | None = None,
        precision: str | None = None,
        seed: int | str | Mapping[str, int | str] | None = None,
        commit: str | None = None,
        device: str | None = None,
        driver_version: str | None = None,
        toolchain: Mapping[str, str] | None = None,
    ) -> None:
        """Say what the task is made with; ``otel-kernel-trace fingerprint`` and ``check`` tell it.

        Packages that are installed, the commit and Python's version are told without this. It
        may be called again, until the task's root span ends; of what is given twice the last
        counts.

        Args:
            engine_version: of what builds or runs the kernels, such as TensorRT.
            precision: ``fp16``, ``fp16+int8`` …
            seed: of random numbers, one or several by name.
            commit: which is checked out, where it is not that of the working folder.
            device: what the kernels run on.
            driver_version: the device's.
            toolchain: versions of compilers and libraries by name;
                :func:`otel_kernel_trace.fingerprint.probing.probe` asks those of this machine.
        """
        described = attributes.of_description(
            engine_version=engine_version,
            precision=precision,
            seed=seed,
            commit=commit,
            device=device,
            driver_version=driver_version,
            toolchain=toolchain,
        )
        if not self._task.describe(described):
            with self._lock:
                self._description = {**self._description, **described}

    def headers(self, *, steps: int = 1) -> dict[str, str]:
        """What carries the task to another machine: HTTP headers, ``traceparent`` and ``baggage``.

        There :meth:`from_carrier` goes on with it. Its actions stand under the span that is
        current here.

        Args:
            steps: how many are kept for the actions there; more of them go after the last.

        Raises:
            ValueError: ``op_name`` or ``task_id`` is too long to be carried; ``steps`` is no
                number, or negative.
        """
        if not isinstance(steps, int) or steps < 0:
            raise ValueError(f"steps is a number of steps, 0 or more, not {steps!r}")
        context = self._task.context(self._tracer)
        names = attributes.text(self.op_name), attributes.text(self.task_id)
        self._keep_skipped()
        with self._lock:
            # Before steps are taken, as the names may be too long.
            headers_of(Carried(*names, _LONGEST, steps), context, self._task.around)
            run = trace.get_current_span(context).get_span_context().trace_id
            kept_on_disk = keep_steps(self._tracer, *names, run, steps)
            last_step = self._step if kept_on_disk is None else kept_on_disk
            self._step = max(self._step, last_step + steps)
            return headers_of(Carried(*names, last_step, steps), context, self._task.around)

    def environment(self, *, steps: int = 1) -> dict[str, str]:
        """This process's environment with what carries the task, and its level, to a child process.

        >>> subprocess.run([...], env=tracer.environment())

        Args:
            steps: as of :meth:`headers`.

        Raises:
            ValueError: ``op_name`` or ``task_id`` is too long to be carried.
        """
        level = {} if self._level is None else {LEVEL_VARIABLE: self._level}
        return {**without_task(os.environ), **level, **environment_of(self.headers(steps=steps))}

    @classmethod
    def from_carrier(
        cls,
        carrier: Mapping[str, str] | None = None,
        tracer_provider: trace.TracerProvider | None = None,
        level: str | None = None,
    ) -> KernelTracer:
        """Go on with the task that another process carries here.

        Args:
            carrier: headers of an HTTP request, or environment variables, in whatever case;
                default: the environment of this process.
            tracer_provider, level: as of the class.

        Raises:
            ValueError: no task is carried, or ``level`` can't be used.
        """
        came = arrived(os.environ if carrier is None else carrier)
        if came is None:
            raise ValueError(
                "no task came here: the parent's tracer.environment(), or tracer.headers(), has it"
            )
        tracer = cls(came.task.op_name, came.task.task_id, tracer_provider, level=level)
        tracer._step = came.task.last_step
        if came.task.steps is not None:
            tracer._last_kept = came.task.last_step + came.task.steps
        tracer._task = TaskSpan({}, came.context)
        return tracer

    def __reduce__(self) -> tuple[Callable[..., KernelTracer], tuple[dict[str, str], None, str | None]]:
        # To the worker of a pool, fork or spawn, a tracer goes as to any other process.
        return KernelTracer.from_carrier, (self.headers(), None, self._level)

    def __copy__(self) -> KernelTracer:
        return KernelTracer.from_carrier(self.headers(), self._tracer_provider, self._level)

    def __deepcopy__(self, memo: dict[int, object]) -> KernelTracer:
        return self.__copy__()

    def after_fork(self) -> None:
        """For a forked child; not for users."""
        self._lock = threading.RLock()

    def close(self) -> None:
        """End the task's root span."""
        if self._levels.highest > Level.OFF:
            with contextlib.suppress(Exception):  # nothing in the end of a task may fail the program
                self._keep_skipped()
        self._task.end()

    def __enter__(self) -> KernelTracer:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def skip(self, action: Skipped) -> tuple[SkippedSteps | None, int]:
        """For actions below their level; not for users."""
        with self._lock:
            self._step += 1
            skipped, number = None, self._step
            if self._last_kept is None or self._step > self._last_kept:
                skipped = self._skipped = self._skipped or SkippedSteps(self._step)
                number = skipped.count
                skipped.count += 1
            self._last = action
        return skipped, number

    def context_of_skipped(self, action: Within) -> Context:
        """For actions below their level; not for users."""
        current = get_current()
        known = self._inside_skipped
        if known is not None and known[0] is current and known[1] is action:
            # Each its own: by it an action that was abandoned tells whether it is the current one.
            return Context(known[2])
        # What is not skipped inside stands under the task.
        is_off = self._levels.highest is Level.OFF
        inside = in_task(self._here, current if is_off else self._task.context(self._tracer), action)
        self._inside_skipped = (current, action, inside)
        return inside

    def tell_of_failure(self, action: Skipped, error: BaseException | None) -> None:
        """For actions below their level; not for users."""
        try:
            self._keep_skipped()
            name, step = action.action_type, action.step
            given = {
                **attributes.of_action(self.op_name, self.task_id, step, name),
                **attributes.of_parts({"error_log": action.error_log}),
                **marked(action.level),
            }
            links = () if action.judged is None else _links_to(action.judged)
            context = self._task.context(self._tracer)
            span = start_span(self._tracer, name, context, given, links, action.began)
            if error is not None:
                note_exception(span, error, _ERROR_LOG)
            _tell_findings(span)
            span.end()
        except Exception:
            _logger.exception("could not record that the %.100r action failed", action.action_type)

    def _agent(self, name: str, prompt: str | None) -> contextlib.AbstractContextManager[Action]:
        level = self._levels.of_action(name)
        if level < Level.INFO and level < from_start(component_of(name)):
            return SkippedAction(self, name, level)
        return self._with_span(name, prompt, level)

    @contextlib.contextmanager
    def _with_span(self, name: str, prompt: str | None, level: Level) -> Iterator[Action]:
        step = self._next_step()
        with self._span(name, step, attributes.of_parts({"prompt": prompt})) as span:
            yield Action(span, self._step_of(span, step), name, level)

    @contextlib.contextmanager
    def _verifier(self, given: attributes.Attributes) -> Iterator[VerifierAction]:
        name = ActionType.VERIFY.name
        step = self._next_step()
        with self._span(name, step, given) as span:
            action = VerifierAction(span, self._step_of(span, step), name, self._levels.of_action(name))
            try:
                yield action
            except BaseException:
                action._set({}, is_error=True)
                raise

    @contextlib.contextmanager
    def _span(
        self,
        name: str,
        step: int | None,
        given: attributes.Attributes,
        judged: Judged | None = None,
    ) -> Iterator[Span]:
        level = self._levels.of_action(name)
        if level < Level.INFO:
            given = {**kept(component_of(name), level, given, failed=False), **marked(level)}
        links = () if judged is None else _links_to(judged)
        span = start_span(
            self._tracer,
            name,
            self._task.context(self._tracer),
            {
                **attributes.of_action(self.op_name, self.task_id, step, name),
                **self._description,
                **given,
            },
            links,
        )
        if not span.is_recording() and self._tracer_provider is None:
            _warn_of_no_provider()
        if judged is None:
            with self._lock:
                began = _Began(self._step_of(span, step), name, span.get_span_context())
                if self._last is None or self._last.step <= began.step:
                    self._last = began
        with work_under(span, self._here, _ERROR_LOG, _tell_findings, action_of(name, level, has_span=True)):
            yield span

    def _place(self) -> Place:
        return Place(self._here, self._task.context(self._tracer))

    def _next_step(self) -> int | None:
        """The step of an action that begins; None where none was kept for this process any more."""
        with self._lock:
            self._keep_skipped()
            if self._last_kept is not None and self._step >= self._last_kept:
                return None
            self._step += 1
            return self._step

    def _keep_skipped(self) -> None:
        """Keep the steps of what was skipped on disk, where there is one, before more is recorded."""
        with self._lock:
            skipped, self._skipped = self._skipped, None
            if skipped is None:
                return
            names = attributes.text(self.op_name), attributes.text(self.task_id)
            run = trace.get_current_span(self._task.context(self._tracer)).get_span_context().trace_id
            before = keep_steps(self._tracer, *names, run, skipped.count)
            if before is None:
                skipped.run = run
                return
            skipped.first = before + 1
            self._step = max(self._step, before + skipped.count)

    def _step_of(self, span: Span, step: int | None) -> int:
        """The step that a processor found for the action on disk, else the one counted here."""
        on_disk = (getattr(span, "attributes", None) or {}).get(attributes.STEP)
        if step is None:
            # Counted where it is written; what is counted here is not to meet the kept ones.
            return on_disk if isinstance(on_disk, int) else 0
        if not isinstance(on_disk, int) or on_disk <= step:
            return step
        with self._lock:
            self._step = max(self._step, on_disk)  # what comes next goes on from there
        return on_disk


class _Began(NamedTuple):
    """An action with a span, for the Conductor: who keeps it does not keep the span."""

    step: int
    action_type: str
    span_context: trace.SpanContext


def _links_to(judged: Judged) -> Sequence[trace.Link]:
    span_context = judged.span_context
    return [trace.Link(span_context, {attributes.JUDGES: True})] if span_context.is_valid else []


def _check_of(action_type: str) -> str:
    """The name of the Conductor's check of an action."""
    check = check_of(action_type)
    if check is None:
        raise ValueError(f"no Conductor's check is for {action_type!r}; use action() for agents of your own")
    return check.name


def _tell_findings(span: Span) -> None:
    """Put on an action's span what its logs say, so that every exporter has it."""
    found = findings_in(whole_of(span))
    if found is not None:
        set_attributes(span, found.attributes)
        for event in found.events:
            span.add_event(attributes.DIAGNOSTIC, event)


@lru_cache(maxsize=1)
def _load_what_runs_need() -> None:
    """Load what a command inside a stage will need: loading is not to count as the stage's time."""
    with contextlib.suppress(Exception):  # with no file left to open it can't be loaded
        import otel_kernel_trace.stages.runs  # noqa: F401
        from otel_kernel_trace.diagnostics import parse_diagnostics

        parse_diagnostics("error: none")


def _check_agent(action_type: object, agent: Agent) -> None:
    if isinstance(action_type, ActionType) and agent_of(action_type.name) is agent:
        return
    own = ", ".join(f"ActionType.{a.name}" for a in ActionType if agent_of(a.name) is agent)
    raise ValueError(f"{action_type!r} is no {agent.value.capitalize()}'s action; these are: {own}")


def _warn_of_no_provider() -> None:
    if not _has_warned and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        _has_warned.append(True)
        _logger.warning(
            "nothing is recorded: no TracerProvider has been set; call otel_kernel_trace.configure() first"
        )
