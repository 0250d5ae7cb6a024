"""From the attributes of a language-model call's span to what was asked, thought and answered.

Three ways are read in which instrumentations write that on their spans:

- OpenTelemetry's GenAI conventions: messages that have parts, as a structure or as its JSON.
  https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/client-inference.md
  https://github.com/open-telemetry/semantic-conventions-genai/blob/main/model/gen-ai/gen-ai-output-messages.json
- OpenInference: every field of a message is an attribute, with the message's index in its name.
  https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
- What came before GenAI's messages: ``gen_ai.prompt`` and ``gen_ai.completion``, texts or JSON, or with
  indexes in their names as OpenLLMetry has them (https://github.com/traceloop/openllmetry).

Attributes may be cut, wrong or made to harm. Nothing here raises, and time is linear;
what cannot be read as messages is a text as it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentelemetry.util.types import AttributeValue

from otel_kernel_trace.attributes import GEN_AI_OPERATION_NAME, text

_CALLS = frozenset({"chat", "text_completion", "generate_content"})
_NO_CALLS_OF_OPENLLMETRY = ("embedding", "rerank")

# Where messages may be: the first that says something counts. Values are texts, whatever is in them.
_ASKED = ("gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "llm.prompts", "input.value")
_SAID = ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", "llm.choices", "output.value")
_VALUES = ("input.value", "output.value")

_REQUEST_MODEL: Final = "gen_ai.request.model"
_MODELS = ("gen_ai.response.model", _REQUEST_MODEL, "llm.model_name")
_TOKENS_IN = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_TOKENS_OUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
# Without a name of the operation each of these tells of a call.
_SIGNS = (_REQUEST_MODEL, _ASKED[0], _SAID[0], _ASKED[2], _SAID[2])

# An index of more digits counts nothing, and would be costly to make a number of.
_INDEX = r"\.([0-9]{1,18})\.(.+)"
_FIELD = re.compile(rf"({'|'.join(map(re.escape, _ASKED[1:4] + _SAID[1:4]))}){_INDEX}", re.DOTALL)
_NESTED = re.compile(rf"(?:message\.)?(contents|tool_calls){_INDEX}", re.DOTALL)
_DATA_URL = re.compile(r"(data:[\w.+/;=-]{0,99};base64,)([\w+/=-]+)", re.ASCII)

_TEXT: Final = "text"
_REASONING: Final = "reasoning"
_WITHHELD: Final = "withheld"  # reasoning that is encrypted or redacted
_OTHER: Final = "other"
_CONTENTS = ("content", "text", "parts", "tool_calls")
_TEXT_TYPES = (_TEXT, "input_text", "output_text", "summary_text", None)
_NO_ANSWERS = (_REASONING, _WITHHELD, "server_tool_call", "server_tool_call_response", "compaction")

_UNTELLABLE = (TypeError, ValueError, RecursionError)
"""What JSON raises for keys that it has not, circles, huge numbers and deep nesting."""

_Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a language model. A field is None where the span says nothing of it."""

    prompt: str | None
    """The text of the message if there was one, else every message under a line ``[role]``."""
    reasoning: str | None
    """What the model thought on its way to the result."""
    result: str | None
    """The text of the first answer; of one without a text its tool calls, as lines of JSON."""
    model: str | None
    """The model that answered, else the one that was asked for."""
    input_tokens: int | None
    output_tokens: int | None


class _Part(NamedTuple):
    kind: str
    text: str
    """Of what is neither text nor reasoning its JSON."""


class _Message(NamedTuple):
    role: str
    parts: list[_Part]


def is_model_call(attributes: Mapping[str, AttributeValue]) -> bool:
    """Whether a span with these attributes is a call of a language model. Looks at few of them."""
    operation = attributes.get(GEN_AI_OPERATION_NAME)
    if isinstance(operation, str):
        return operation in _CALLS
    kind = attributes.get("openinference.span.kind")
    if isinstance(kind, str):
        return kind == "LLM"
    if attributes.get("llm.request.type") in _NO_CALLS_OF_OPENLLMETRY:
        return False
    return any(attributes.get(name) is not None for name in _SIGNS)


def read_model_call(attributes: Mapping[str, AttributeValue]) -> ModelCall | None:
    """The call that a span with these attributes tells of, None where it tells of none."""
    if not is_model_call(attributes):
        return None
    lists = _lists(attributes, _FIELD)
    system = _system(attributes.get("gen_ai.system_instructions"))
    asked = _messages(attributes, lists, _ASKED)
    answered = _messages(attributes, lists, _SAID)
    if answered and (_count(attributes, "gen_ai.request.choice.count") or 0) > 1:
        answered = answered[:1]  # each of them is one of the answers that were asked for
    reasoning, result = (None, None) if answered is None else _answer(answered)
    models = (value for name in _MODELS if isinstance(value := attributes.get(name), str) and value)
    return ModelCall(
        prompt=None if asked is None and not system else _prompt(system, asked or []),
        reasoning=reasoning,
        result=result,
        model=next(models, None),
        input_tokens=_count(attributes, *_TOKENS_IN),
        output_tokens=_count(attributes, *_TOKENS_OUT),
    )


def _count(attributes: _Fields, *names: str) -> int | None:
    values = (value for name in names if type(value := attributes.get(name)) is int and 0 <= value < 2**63)
    return next(values, None)


def _prompt(system: list[_Message], asked: list[_Message]) -> str:
    if len(asked) == 1 and not system:
        return _body(asked[0])
    return "\n\n".join(f"[{message.role}]\n{_body(message)}" for message in (*system, *asked))


def _body(message: _Message) -> str:
    return "\n".join(
        _json({"type": part.kind, "content": part.text}) if part.kind == _REASONING else part.text
        for part in message.parts
    )


def _answer(messages: list[_Message]) -> tuple[str | None, str]:
    """Reasoning and result, up to the first message that answers.

    Some APIs have reasoning and what the server's own tools did in messages before the one that answers.
    """
    thoughts: list[str] = []
    said: list[_Part] = []
    for message in messages:
        thoughts += [part.text for part in message.parts if part.kind == _REASONING]
        said = [part for part in message.parts if part.kind not in (_REASONING, _WITHHELD)]
        if any(part.kind not in _NO_ANSWERS for part in said):
            break
    # The pieces of a text are joined by nothing: they may part in the middle of a word.
    result = "".join(part.text for part in said if part.kind == _TEXT)
    calls = "\n".join(part.text for part in said if part.kind != _TEXT)
    return "\n\n".join(thoughts) if thoughts else None, result or calls


def _messages(
    attributes: _Fields, lists: Mapping[str, list[_Fields]], names: tuple[str, ...]
) -> list[_Message] | None:
    for name in names:
        if (fields := lists.get(name)) is not None:
            source: object = fields
            items: list[_Fields] | None = [_unflattened(each) for each in fields]
        elif (source := attributes.get(name)) is not None:
            items = None if name in _VALUES else _items(source, "role", "parts")
        else:
            continue
        messages = _read(items, source)
        if messages or not items:  # else only the roles of messages were captured
            return messages
    return None


def _system(instructions: object) -> list[_Message]:
    if instructions is None:
        return []
    parts = _items(instructions, "type", "content")
    items: list[_Fields] | None = None if parts is None else [{"content": parts}] if parts else []
    return [_Message("system", message.parts) for message in _read(items, instructions)]


def _read(items: list[_Fields] | None, source: object) -> list[_Message]:
    """The messages of which the content was captured, or one of the whole source where there are no items."""
    if items is not None:
        try:
            return [message for item in items if (message := _message(item)) is not None]
        except _UNTELLABLE:
            pass
    return [_Message("unknown", [_Part(_TEXT, _told(source))])]


def _lists(fields: _Fields, pattern: re.Pattern[str]) -> dict[str, list[_Fields]]:
    """The lists that were flattened into names, in the order of their indexes, whatever is left out."""
    found: dict[str, dict[int, dict[str, object]]] = {}
    for name, value in fields.items():
        if (field := pattern.fullmatch(name)) is not None:
            found.setdefault(field[1], {}).setdefault(int(field[2]), {})[field[3]] = value
    return {name: [entries[index] for index in sorted(entries)] for name, entries in found.items()}


def _unflattened(fields: _Fields) -> _Fields:
    """A message in GenAI's form. Of a name like ``message.content`` the last word tells what it is."""
    lists = _lists(fields, _NESTED)
    contents = [_last_words(part) for part in lists.get("contents", [])]
    calls = [{"type": "tool_call", **_last_words(call)} for call in lists.get("tool_calls", [])]
    own = {name: value for name, value in fields.items() if _NESTED.fullmatch(name) is None}
    return {**_last_words(own), "parts": [*contents, *calls] or None}


def _last_words(fields: _Fields) -> dict[str, object]:
    return {name.rpartition(".")[2]: value for name, value in fields.items()}


def _items(value: object, *names: str) -> list[_Fields] | None:
    """The mappings in a value or its JSON, None where it has anything but mappings with one of the names."""
    if isinstance(value, (str, bytes)):
        try:
            value = json.loads(text(value))
        except (ValueError, RecursionError):
            return None
    given = value if isinstance(value, (list, tuple)) else [value]
    items = [each for each in given if isinstance(each, Mapping) and not each.keys().isdisjoint(names)]
    return items if len(items) == len(given) else None


def _message(item: _Fields) -> _Message | None:
    """None where the item does not say what is in the message."""
    thoughts = [item[name] for name in ("reasoning_content", "reasoning") if item.get(name) is not None]
    contents = [item[name] for name in _CONTENTS if item.get(name) is not None]
    if not thoughts and not contents:
        return None
    parts = [_Part(_REASONING, _thought(each)) for each in thoughts[:1]]  # under both names it is the same
    for content in contents:
        parts += map(_part, content if isinstance(content, (list, tuple)) else [content])
    role = item.get("role")
    return _Message(role if isinstance(role, str) else "unknown", parts)


def _part(value: object) -> _Part:
    if isinstance(value, str):
        return _Part(_TEXT, value)
    if not isinstance(value, Mapping):
        return _Part(_OTHER, _json(value))
    kind, content = value.get("type"), value.get("content", value.get("text"))
    if kind in _TEXT_TYPES and isinstance(content, str):
        return _Part(_TEXT, content)
    if kind in (_REASONING, "thinking"):
        return _Part(_WITHHELD, _json(value)) if content is None else _Part(_REASONING, _thought(content))
    if kind in ("blob", "binary") and isinstance(content, str):
        value = {**value, "content": _size(content)}
    return _Part(kind if kind in _NO_ANSWERS else _OTHER, _json(value))


def _thought(value: object) -> str:
    pieces = value if isinstance(value, (list, tuple)) else [value]
    return "\n\n".join(_part(piece).text for piece in pieces)


def _told(value: object) -> str:
    try:
        return text(value) if isinstance(value, (str, bytes)) else _json(value)
    except _UNTELLABLE:
        return text(value)


def _json(value: object) -> str:
    told = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_jsonable)
    return _DATA_URL.sub(lambda url: url[1] + _size(url[2]), told)


def _jsonable(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else text(value)


def _size(base64: str) -> str:
    return f"<{len(base64.rstrip('=')) * 3 // 4} bytes>"
