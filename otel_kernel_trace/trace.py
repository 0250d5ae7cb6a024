"""Records of what happened, whose files are there when the call returns: AIKG's ``Trace``, drop-in."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.actions import ActionType, Agent, agent_of, check_of
from otel_kernel_trace.busy import busy
from otel_kernel_trace.environment import environment
from otel_kernel_trace.exporter import KernelTraceSpanExporter
from otel_kernel_trace.findings import findings_in
from otel_kernel_trace.forking import after_fork_in_child
from otel_kernel_trace.layout import Layout
from otel_kernel_trace.levels import Level, component_of, from_start, kept, marked, read_levels
from otel_kernel_trace.live import start_span
from otel_kernel_trace.losses import Counts
from otel_kernel_trace.recall import TraceRecords
from otel_kernel_trace.redaction.redactor import Redactor
from otel_kernel_trace.redaction.spans import Secrets
from otel_kernel_trace.settings import OnExisting, Settings, read_settings
from otel_kernel_trace.task import TaskSpan
from otel_kernel_trace.version import __version__
from otel_kernel_trace.written import share

_logger = logging.getLogger("otel_kernel_trace")

_MAX_EXPORTERS = 8
_FIELDS = (
    ("result", attributes.PART_PREFIX + attributes.RESULT),
    ("result", attributes.VERIFY_RESULT),
    ("prompt", attributes.PART_PREFIX + attributes.PROMPT),
    ("reasoning", attributes.PART_PREFIX + attributes.REASONING),
    ("error_log", attributes.PART_PREFIX + attributes.ERROR_LOG),
    ("profile", attributes.VERIFY_PROFILE),
)
"""Fields of a record in ``trace_list``, and the attributes that hold them."""

_ids = RandomIdGenerator()
_no_resource = Resource.get_empty()


class Trace:
    """Keeps what language models did to produce one kernel.

    Needs no OpenTelemetry set-up: the files are there when a call returns. Where the
    program has an SDK ``TracerProvider``, its processors get the same spans.

    Apart from a wrong ``action_type``, and from a wrong option when it is made, nothing in
    here fails the program: what can't be written is counted (:attr:`counts`) and logged,
    and stays in :attr:`trace_list`.

    Thread-safe, and usable in a forked child.

    Args:
        op_name: operator that the kernel computes.
        task_id: this attempt to produce one kernel.
        log_dir: root of the tree, ``~`` expanded. One that can't be is logged, and nothing
            is written.
        layout, on_existing, file_mode, level, redact, audit_dir: as of
            :class:`KernelTraceSpanExporter`, environment variables included. Records below their
            level take a step, are in :attr:`trace_list`, and are neither written nor shown to the
            program's provider. With ``redact`` that provider gets the spans without secrets;
            :attr:`trace_list` has the texts as they were given, those with secrets in memory alone.

    Raises:
        ValueError, TypeError: ``layout``, ``on_existing``, ``file_mode``, ``level``, ``redact`` or
            ``audit_dir`` can't be used.
    """

    def __init__(
        self,
        op_name: str,
        task_id: str,
        log_dir: str | os.PathLike[str] | None = None,
        *,
        layout: str | Layout | None = None,
        on_existing: OnExisting | None = None,
        file_mode: int | str | None = None,
        level: str | None = None,
        redact: bool | Redactor | None = None,
        audit_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.op_name = op_name
        self.task_id = task_id
        self.log_dir = log_dir
        self.base_doc: dict[str, object] = {}
        """A place for the program's own documents, as AIKG's ``Trace`` has; nothing here reads it."""
        self._levels = read_levels(level)
        self._exporter = _exporter_for_program(
            log_dir, layout, on_existing, file_mode, level, redact, audit_dir
        )
        self._guard = self._exporter.guard if self._exporter else None
        self._identity = (self._name(op_name), self._name(task_id))
        self._records = TraceRecords(*self._identity, self._exporter)
        self._task = TaskSpan(attributes.of_task(*self._identity))
        self._trace_id = _ids.generate_trace_id()
        self._step = 0
        self._skipped = 0
        self._has_told = False
        self._last: tuple[int, SpanContext | None] = (0, None)
        self._lock = threading.RLock()
        after_fork_in_child(self)

    @property
    def trace_list(self) -> TraceRecords:
        """The Designer's, Coder's and Verifier's records made so far, in order."""
        return self._records

    def insert_designer_or_coder_record(
        self, res: str, prompt: str, reasoning: str, action_type: ActionType
    ) -> None:
        """Record what a Designer or a Coder asked the model and what it answered.

        Args:
            res: the model's whole reply; ``result.txt`` gets the code and the comment in it.
            prompt: the whole prompt.
            reasoning: what the model thought.
            action_type: a Designer's or a Coder's.

        Raises:
            ValueError: ``action_type`` is neither.
        """
        if _agent(action_type) not in (Agent.DESIGNER, Agent.CODER):
            raise ValueError(f"action_type must be a Designer's or a Coder's, not {_named(action_type)}")
        self._insert(action_type, {"prompt": prompt, "reasoning": reasoning, "result": res})

    def insert_verifier_record(
        self,
        verify_res: str | bool,
        verify_log: str,
        profile: str,
        action_type: ActionType = ActionType.VERIFY,
        *,
        framework: str | None = None,
        impl_type: str | None = None,
        reference: str | None = None,
        implementation: str | None = None,
        script: str | None = None,
    ) -> None:
        """Record what a Verifier found. It takes a step even where it leaves no file.

        Args:
            verify_res: the verdict, ``"True"`` or ``"False"``. Like ``profile`` it is on the
                span and in ``trace_list``, and in no file.
            verify_log: what compiler, run and comparison said.
            profile: measurements, as JSON.
            action_type: ``VERIFY``.
            framework: what the reference task is written in: ``torch``, ``numpy`` …
            impl_type: what the kernel is written in: ``triton``, ``numba`` …
            reference, implementation, script: the three sources of the ``_verify`` folder.

        Raises:
            ValueError: ``action_type`` is another.
        """
        if action_type is not ActionType.VERIFY:
            raise ValueError(f"action_type must be VERIFY, not {_named(action_type)}")
        self._insert(
            action_type,
            {"error_log": verify_log},
            {
                "result": verify_res,
                "profile": profile,
                "framework": framework,
                "impl_type": impl_type,
                "reference": reference,
                "implementation": implementation,
                "script": script,
            },
        )

    def insert_conductor_record(self, res: str, prompt: str, reasoning: str, action_type: ActionType) -> None:
        """Record how the Conductor judged the last record; empty texts make no file.

        Args:
            res: the verdict.
            prompt: what the Conductor was asked.
            reasoning: what it thought.
            action_type: of the record that it judges.

        Raises:
            ValueError: the Conductor does not judge actions of that type.
        """
        check = check_of(action_type.name) if isinstance(action_type, ActionType) else None
        if check is None:
            raise ValueError(
                f"action_type must be a Designer's, a Coder's or VERIFY, not {_named(action_type)}"
            )
        self._insert(check, {"prompt": prompt, "reasoning": reasoning, "result": res})

    def after_fork(self) -> None:
        """For a forked child; not for users."""
        self._lock = threading.RLock()

    @property
    def counts(self) -> Counts:
        """Records received, written and failed by all traces of this process in this tree."""
        return self._exporter.counts if self._exporter else Counts(0, 0, 0)

    def close(self) -> None:
        """End the task's root span in the program's own provider; else it ends with the trace, or at exit."""
        if self._levels.highest > Level.OFF:
            with self._lock:
                self._keep_skipped()
        self._task.end()

    def _insert(
        self, action: ActionType, parts: dict[str, object], verification: dict[str, object] | None = None
    ) -> None:
        if busy.puts_off(lambda: self._insert(action, parts, verification)):
            return
        try:
            with busy:
                self._record(
                    action, {**attributes.of_parts(parts), **attributes.of_verification(verification or {})}
                )
        except Exception:
            _logger.exception("could not record the %s action of op %.100r", action.name, self._identity[0])

    def _record(self, action: ActionType, texts: attributes.Attributes) -> None:
        is_judgement = agent_of(action.name) is Agent.CONDUCTOR
        level = self._levels.of_action(action.name)
        component = component_of(action.name)
        if level < from_start(component):
            if not is_judgement:
                with self._lock:
                    self._skipped += 1
                self._remember(action, 0, texts, self._without_secrets(texts))
            return
        verdict = texts.get(attributes.VERIFY_RESULT)
        failed = verdict is not None and not attributes.has_passed(verdict)
        status = Status(StatusCode.ERROR, "verification failed") if failed else Status()
        with self._lock:
            self._keep_skipped()
            step, judged = self._last
            if not is_judgement:
                step = self._step = self._next_step()
            # The tree need not get a root span of a Trace; its first record then tells what the root would.
            made_with = {} if self._has_told else environment()
            self._has_told = True
        given: Mapping[str, AttributeValue] = {
            **attributes.of_action(*self._identity, step, action.name),
            **made_with,
            **texts,
        }
        secrets = Secrets()
        if self._guard is not None:
            given = self._guard.attributes(given, secrets)
        clean = {name: value for name, value in given.items() if name in texts}
        if level < Level.INFO:
            given = {**kept(component, level, given, failed=failed), **marked(level)}
        found = findings_in(given)
        events = [] if found is None else [Event(attributes.DIAGNOSTIC, event) for event in found.events]
        told = {**given, **(found.attributes if found else {})}
        links = [Link(judged, {attributes.JUDGES: True})] if is_judgement and judged else []

        shown = self._show(action.name, told, links, events)
        context = shown.get_span_context() if shown else self._own_context()
        if self._guard is not None:
            self._guard.settle(secrets, context.trace_id, context.span_id)
        written = self._write(action.name, told, links, events, context, status, is_shown=shown is not None)
        if written is not None:
            step = written
        if not is_judgement:
            with self._lock:
                self._last = max(self._last, (step, context), key=_step_of)
            in_tree = set() if written is None else _fields(given).keys()
            self._remember(action, step, texts, clean, in_tree)
        if shown:
            self._end_shown(shown, step, status, is_written=written is not None)

    def _remember(
        self,
        action: ActionType,
        step: int,
        texts: attributes.Attributes,
        clean: Mapping[str, AttributeValue],
        in_tree: Collection[str] = (),
    ) -> None:
        """Add a record to :attr:`trace_list`; texts with secrets stay in memory."""
        self._records.append(action, step, _fields(clean), in_tree=in_tree, secret=_secret(texts, clean))

    def _without_secrets(self, texts: attributes.Attributes) -> Mapping[str, AttributeValue]:
        return texts if self._guard is None else self._guard.attributes(texts, Secrets())

    def _name(self, given: object) -> str:
        name = attributes.text(given)
        return name if self._guard is None else self._guard.name(name)

    def _keep_skipped(self) -> None:
        """Keep the steps of records that were skipped, before one that is written or judges them."""
        skipped, self._skipped = self._skipped, 0
        if not skipped:
            return
        before = None
        if self._exporter is not None:
            with suppress(Exception):  # as below
                before = self._exporter.keep_steps(*self._identity, self._trace_id, skipped)
        self._step = (self._step if before is None else before) + skipped
        self._last = (self._step, None)

    def _next_step(self) -> int:
        if self._exporter is not None:
            # What fails here fails again with the record itself, and is told then.
            with suppress(Exception):
                reserved = self._exporter.reserve_step(*self._identity)
                if reserved is not None:
                    return reserved
        return self._step + 1

    def _show(
        self, name: str, given: Mapping[str, AttributeValue], links: list[Link], events: list[Event]
    ) -> Span | None:
        """The span in the program's own provider, if it has one whose processors take it."""
        try:
            provider = trace.get_tracer_provider()
            if not isinstance(provider, TracerProvider):
                return None
            tracer = provider.get_tracer("otel_kernel_trace", __version__)
            if self._exporter:
                # From the start, so that no processor for this tree writes it as well.
                given = {**given, attributes.LOG_DIR: self._exporter.log_dir}
            span = start_span(tracer, name, self._task.context(tracer), given, links)
            for event in events:
                span.add_event(event.name, event.attributes)
            return span
        except Exception as error:  # noqa: BLE001 - other people's processors run in there
            _logger.warning("the program's TracerProvider did not take the span of a Trace: %r", error)
            return None

    def _end_shown(self, shown: Span, step: int, status: Status, *, is_written: bool) -> None:
        try:
            shown.set_attribute(attributes.STEP, step)
            if not is_written:
                shown.set_attribute(attributes.LOG_DIR, "")
            if status.status_code is StatusCode.ERROR:
                shown.set_status(status)
            shown.end()
        except Exception as error:  # noqa: BLE001 - other people's processors run in there
            _logger.warning("the program's TracerProvider did not take the span of a Trace: %r", error)

    def _own_context(self) -> SpanContext:
        return SpanContext(self._trace_id, _ids.generate_span_id(), False, TraceFlags(TraceFlags.SAMPLED))

    def _write(
        self,
        name: str,
        given: Mapping[str, AttributeValue],
        links: list[Link],
        events: list[Event],
        context: SpanContext,
        status: Status,
        *,
        is_shown: bool,
    ) -> int | None:
        """Write the record's files, from a span of our own: the program's may be sampled out or cut."""
        if self._exporter is None:
            return None
        now = time.time_ns()
        span = ReadableSpan(
            name,
            context,
            resource=_no_resource,
            attributes=given,
            links=links,
            events=events,
            status=status,
            start_time=now,
            end_time=now,
        )
        step = self._exporter.write(span)
        if is_shown:
            share(span)
        return step


def _agent(action_type: object) -> Agent | None:
    return agent_of(action_type.name) if isinstance(action_type, ActionType) else None


def _named(action_type: object) -> str:
    return action_type.name if isinstance(action_type, ActionType) else f"a {type(action_type).__name__}"


def _step_of(action: tuple[int, SpanContext | None]) -> int:
    return action[0]


def _fields(given: Mapping[str, AttributeValue]) -> dict[str, str]:
    """Texts of a record in ``trace_list``, by field."""
    fields = {}
    for field, name in _FIELDS:
        text = given.get(name)
        if isinstance(text, str) and text:
            fields[field] = text
    return fields


def _secret(texts: attributes.Attributes, given: Mapping[str, AttributeValue]) -> dict[str, str]:
    """Texts of a record in ``trace_list`` that had secrets, by field."""
    had = {name: text for name, text in texts.items() if given.get(name) is not text}
    return _fields(had) if had else {}


def _exporter_for_program(
    log_dir: str | os.PathLike[str] | None,
    layout: str | Layout | None,
    on_existing: OnExisting | None,
    file_mode: int | str | None,
    level: str | None,
    redact: bool | Redactor | None,
    audit_dir: str | os.PathLike[str] | None,
) -> KernelTraceSpanExporter | None:
    options = (layout, on_existing, file_mode, level, redact)
    read_settings("/", *options)  # what the program got wrong, it is told
    try:
        root = read_settings(log_dir, *options).log_dir
    except Exception as error:  # noqa: BLE001 - log_dir may be anything, code of the caller's included
        _logger.error("nothing will be written, as a Trace can't have this log_dir: %r", error)
        return None
    settings = read_settings(root, *options, audit_dir)
    try:
        return _exporter_of(settings, level)
    except Exception as error:  # noqa: BLE001 - the file system may have anything against it
        _logger.error("nothing will be written below %s: %r", root, error)
        return None


@lru_cache(maxsize=_MAX_EXPORTERS)
def _exporter_of(settings: Settings, level: str | None) -> KernelTraceSpanExporter:
    """One exporter for all traces of a tree, so that its open files and its losses are counted once."""
    return KernelTraceSpanExporter(
        settings.log_dir,
        layout=settings.layout,
        on_existing=settings.on_existing,
        file_mode=settings.file_mode,
        level=level,
        redact=settings.redactor if settings.redactor is not None else False,
        audit_dir=settings.audit_dir,
    )
