"""Actions of a KernelTracer, while they go on: what the ``with`` block gets."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode

from otel_kernel_trace import attributes
from otel_kernel_trace.levels import Level, component_of, has_failed, kept
from otel_kernel_trace.live import set_attributes
from otel_kernel_trace.skipped import Skipped


class _Working:
    """What all actions have while they go on."""

    def __init__(self, span: Span, step: int, action_type: str, level: Level = Level.INFO) -> None:
        self.span = span
        """The OpenTelemetry span, for attributes and events of your own."""
        self._step = step
        self.action_type = action_type
        """Name of an :class:`ActionType` member, or the agent's name."""
        self._level = level
        self._given: attributes.Attributes = {}

    @property
    def step(self) -> int:
        """Number of the action in its task; for a Conductor, of the one it judges."""
        return self._step

    @property
    def span_context(self) -> trace.SpanContext:
        """What a judgement of the action refers to beside its step."""
        return self.span.get_span_context()

    def _set(self, given: attributes.Attributes, *, is_error: bool = False) -> None:
        """Give the span what its level has it keep."""
        if self._level < Level.INFO:
            # What is kept of a verification depends on its end.
            self._given |= given
            component = component_of(self.action_type)
            failed = has_failed(component, self._given, is_error=is_error)
            given = kept(component, self._level, self._given, failed=failed)
        set_attributes(self.span, given)


class Action(_Working):
    """An action of a Designer, a Coder, a Conductor or any agent, while it runs."""

    def record(
        self,
        result: str | None = None,
        reasoning: str | None = None,
        *,
        prompt: str | None = None,
        error_log: str | None = None,
        **parts: str | None,
    ) -> None:
        """Add texts to the action; of what is given twice the last counts.

        Args:
            result: the model's whole reply, unparsed.
            reasoning: what the model thought.
            prompt: for when it was not known at the start.
            error_log: what went wrong.
            parts: texts under names of your own.
        """
        given = {"result": result, "reasoning": reasoning, "prompt": prompt, "error_log": error_log, **parts}
        self._set(attributes.of_parts(given))


class VerifierAction(_Working):
    """A Verifier's action, while it runs."""

    def record(
        self,
        result: bool | str,
        error_log: str | None = None,
        profile: str | dict[str, object] | None = None,
        *,
        reference: str | None = None,
        implementation: str | None = None,
        script: str | None = None,
        **parts: str | None,
    ) -> None:
        """Add the verdict and what led to it. A verdict that is no pass makes the span an error.

        Args:
            result: whether the kernel is right: a bool, or a text, of which ``"True"``,
                ``"passed"``, ``"ok"``, ``"success"``, ``"yes"`` and ``"1"`` say that it is.
            error_log: what compiler, run and comparison said.
            profile: measurements, as JSON or as a dict; on the span, in no file.
            reference: source of the reference task.
            implementation: source of the kernel.
            script: source of the comparison.
            parts: texts under names of your own.
        """
        found = {
            "result": result,
            "profile": profile,
            "reference": reference,
            "implementation": implementation,
            "script": script,
        }
        self._set(
            {
                **attributes.of_parts({"error_log": error_log, **parts}),
                **attributes.of_verification(found),
            }
        )
        if not attributes.has_passed(result):
            self.span.set_status(Status(StatusCode.ERROR, "verification failed"))


class SkippedAction(Skipped, Action):
    """An action below its level: of what it is given an error log alone counts."""

    def record(
        self,
        result: str | None = None,
        reasoning: str | None = None,
        *,
        prompt: str | None = None,
        error_log: str | None = None,
        **parts: str | None,
    ) -> None:
        if error_log:
            self.error_log = error_log


class SkippedVerifier(Skipped, VerifierAction):
    """A verification where nothing of a Verifier's is kept, not even that it failed."""

    def record(
        self,
        result: bool | str,
        error_log: str | None = None,
        profile: str | dict[str, object] | None = None,
        *,
        reference: str | None = None,
        implementation: str | None = None,
        script: str | None = None,
        **parts: str | None,
    ) -> None:
        pass
