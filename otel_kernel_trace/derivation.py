"""What an action takes from the model calls made inside it."""

from __future__ import annotations

from opentelemetry.sdk.trace import Span
from opentelemetry.util.types import AttributeValue

from otel_kernel_trace import attributes
from otel_kernel_trace.actions import Agent, agent_of
from otel_kernel_trace.live import Live, is_cut_of
from otel_kernel_trace.modelcalls import ModelCall
from otel_kernel_trace.record import attributes_of, is_action


def take_from_call(
    call: ModelCall, live: Live, span: Span, *, succeeded: bool, limit: int | None = None
) -> None:
    """Give an action's span what a model call inside it tells.

    What the action was given explicitly stays. Texts are those of the last call that
    succeeded; tokens are the sum of all calls.

    Args:
        call: the model call, ended.
        live: what is known of the action.
        span: of the action, not ended.
        succeeded: whether the call did.
        limit: number of characters to which texts of the call were cut, None where none was.
    """
    seen = attributes_of(span)
    found: dict[str, AttributeValue] = {}

    def offer(name: str, value: str | int | None, *, is_sum: bool = False) -> None:
        now = seen.get(name)
        before = live.whole.get(name)
        is_explicit = name not in live.derived and (now is not None or before is not None)
        if name in live.derived and now is not None and now is not before:
            is_explicit = before is None or not is_cut_of(now, before)  # set by hand since
        if value is None or is_explicit:
            return
        found[name] = before + value if is_sum and type(before) is int and type(value) is int else value

    offer(attributes.GEN_AI_INPUT_TOKENS, call.input_tokens, is_sum=True)
    offer(attributes.GEN_AI_OUTPUT_TOKENS, call.output_tokens, is_sum=True)
    if succeeded:
        offer(attributes.GEN_AI_RESPONSE_MODEL, call.model)
        # A Verifier has no such parts: a model that it asks is in the index alone.
        action_type = seen.get(attributes.ACTION_TYPE, live.whole.get(attributes.ACTION_TYPE))
        if not isinstance(action_type, str) or agent_of(action_type) is not Agent.VERIFIER:
            offer(attributes.PART_PREFIX + attributes.PROMPT, call.prompt)
            offer(attributes.PART_PREFIX + attributes.REASONING, call.reasoning)
            offer(attributes.PART_PREFIX + attributes.RESULT, call.result)
            if limit is not None and any(name.startswith(attributes.PART_PREFIX) for name in found):
                cut = f"taken from a model call of which the SDK's limit cut texts to {limit} characters"
                offer(attributes.INCOMPLETE, cut)
    live.derived.update(found)
    live.whole.update(found)
    span.set_attributes(found)


def action_around(live: Live) -> tuple[Live, Span] | None:
    """The action that a span of this process is in, None where that has no span, or none that goes on."""
    around = live.parent
    while around is not None:
        span = around()
        if isinstance(span, Span) and span.is_recording() and is_action(attributes_of(span)):
            # One below its level may stand between the two.
            is_in_it = live.within is None or live.within.has_span or around.within is live.within
            return (around, span) if is_in_it else None
        around = around.parent
    return None
