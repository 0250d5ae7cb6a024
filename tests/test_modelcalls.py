"""What a model call's span says was asked, thought and answered."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_kernel_trace import attributes
from otel_kernel_trace.modelcalls import ModelCall, is_model_call, read_model_call
from tests.spans import provider_of

CODE = '{"code": "def f():\\n    return 1", "description": "说明"}'
DEEP = "[" * 100_000 + "]" * 100_000


def _read(given: dict[str, Any]) -> ModelCall:
    call = read_model_call(given)
    assert call is not None
    return call


def _gen_ai(**given: object) -> ModelCall:
    """The call of a span of GenAI's; ``input__messages`` stands for ``gen_ai.input.messages``."""
    named = {f"gen_ai.{name.replace('__', '.')}": value for name, value in given.items()}
    return _read({"gen_ai.operation.name": "chat", **named})


def _open_inference(**given: object) -> ModelCall:
    """The call of a span of OpenInference's; ``llm__input_messages__0`` for ``llm.input_messages.0``."""
    named = {name.replace("__", "."): value for name, value in given.items()}
    return _read({"openinference.span.kind": "LLM", **named})


def _message(role: str, *parts: object) -> dict[str, object]:
    return {"role": role, "parts": [_text(part) if isinstance(part, str) else part for part in parts]}


def _text(content: str) -> dict[str, object]:
    return {"type": "text", "content": content}


def _thought(content: object) -> dict[str, object]:
    return {"type": "reasoning", "content": content}


TOOL_CALL = {"type": "tool_call", "id": "1", "name": "profile", "arguments": {"n": [1, "é"]}}
TOOL_CALL_LINE = '{"type":"tool_call","id":"1","name":"profile","arguments":{"n":[1,"é"]}}'


def _frozen(value: object) -> object:
    """A structure as the SDK may keep it."""
    if isinstance(value, dict):
        return MappingProxyType({name: _frozen(each) for name, each in value.items()})
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


# --- Which spans are calls ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"gen_ai.operation.name": "chat"}, id="chat"),
        pytest.param({"gen_ai.operation.name": "text_completion"}, id="text completion"),
        pytest.param({"gen_ai.operation.name": "generate_content"}, id="generate content"),
        pytest.param({"gen_ai.request.model": "m"}, id="a model"),
        pytest.param({"gen_ai.input.messages": "[]"}, id="messages asked"),
        pytest.param({"gen_ai.output.messages": ()}, id="messages answered"),
        pytest.param({"gen_ai.prompt": ""}, id="a prompt"),
        pytest.param({"llm.request.type": "chat", "gen_ai.request.model": "m"}, id="OpenLLMetry"),
        pytest.param({"openinference.span.kind": "LLM"}, id="OpenInference"),
    ],
)
def test_a_call(given: dict[str, str]) -> None:
    assert is_model_call(given)
    assert read_model_call(given) is not None


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"http.method": "POST", "input.value": "x"}, id="anything"),
        *(
            pytest.param({"gen_ai.operation.name": name, "gen_ai.request.model": "m"}, id=name)
            for name in ("invoke_agent", "execute_tool", "embeddings", "retrieval", "fetch_response", "mine")
        ),
        pytest.param({"llm.request.type": "embedding", "gen_ai.request.model": "m"}, id="OpenLLMetry"),
        pytest.param({"openinference.span.kind": "CHAIN", "llm.model_name": "m"}, id="OpenInference"),
        pytest.param({"openinference.span.kind": "AGENT", "gen_ai.request.model": "m"}, id="both"),
        pytest.param({"gen_ai.request.model": None}, id="no model"),
        pytest.param({"gen_ai.operation.name": ["chat"]}, id="a list"),
        pytest.param(attributes.of_action("swish", "1", 2, "DO_CODER"), id="an action of this package"),
    ],
)
def test_no_call(given: dict[str, str]) -> None:
    assert not is_model_call(given)
    assert read_model_call(given) is None


# --- GenAI -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(json.dumps, id="JSON"),
        pytest.param(lambda value: json.dumps(value).encode(), id="bytes of JSON"),
        pytest.param(lambda value: value, id="structure"),
        pytest.param(_frozen, id="frozen structure"),
    ],
)
def test_messages_with_parts(form: Callable[[object], object]) -> None:
    call = _gen_ai(
        system_instructions=form([_text("You are the Coder."), _text("Write Triton.")]),
        input__messages=form([_message("user", "Operator: swish"), _message("assistant", TOOL_CALL)]),
        output__messages=form([_message("assistant", _thought("Rows."), _thought("Tiles."), CODE)]),
        request__model="asked",
        response__model="answered",
        usage__input_tokens=7,
        usage__output_tokens=0,
    )
    assert call == ModelCall(
        prompt="[system]\nYou are the Coder.\nWrite Triton.\n\n"
        f"[user]\nOperator: swish\n\n[assistant]\n{TOOL_CALL_LINE}",
        reasoning="Rows.\n\nTiles.",
        result=CODE,
        model="answered",
        input_tokens=7,
        output_tokens=0,
    )


def test_a_single_message_is_its_text() -> None:
    assert _gen_ai(input__messages=[_message("user", "a", "b")]).prompt == "a\nb"
    assert _gen_ai(input__messages=[_message("system", "a")]).prompt == "a"
    assert _gen_ai(input__messages=_message("user", "a")).prompt == "a"  # not even a list
    assert _gen_ai(system_instructions=[_text("a")]).prompt == "[system]\na"
    assert _gen_ai(system_instructions="a", input__messages=[_message("user", "b")]).prompt == (
        "[system]\na\n\n[user]\nb"
    )


def test_what_the_span_does_not_say_is_none_and_what_it_says_is_empty_is_empty() -> None:
    nothing = ModelCall(None, None, None, None, None, None)
    assert _gen_ai() == nothing
    assert _gen_ai(request__model="", input__messages=None) == nothing
    assert _gen_ai(input__messages=[{"role": "user"}], output__messages=[{"role": "a", "content": None}]) == (
        nothing
    )
    empty = _gen_ai(input__messages="[]", output__messages=[_message("assistant", _thought(""), "")])
    assert (empty.prompt, empty.reasoning, empty.result) == ("", "", "")
    assert _gen_ai(output__messages=[_message("assistant")]).result == ""
    assert _gen_ai(output__messages=[_message("assistant", _thought("cut"))]).result == ""


def test_what_is_no_text_is_json() -> None:
    response = {"type": "tool_call_response", "id": "1", "response": {"ms": 0.5, "ü": None}}
    picture = {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"}
    unknown = {"type": "lately_invented", "x": [1]}
    call = _gen_ai(input__messages=[_message("tool", "Look:", response, picture, unknown, 5, _thought("so"))])
    assert call.prompt is not None
    assert call.prompt.splitlines() == [
        "Look:",
        '{"type":"tool_call_response","id":"1","response":{"ms":0.5,"ü":null}}',
        '{"type":"uri","modality":"image","uri":"https://example.com/a.png"}',
        '{"type":"lately_invented","x":[1]}',
        "5",
        '{"type":"reasoning","content":"so"}',
    ]


def test_a_list_of_more_than_messages_is_told_as_it_is() -> None:
    assert _gen_ai(input__messages=[{"role": "user", "content": "q"}, "é"]).prompt == (
        '[{"role":"user","content":"q"},"é"]'
    )


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"type": "blob", "content": b"\x00" * 5}, '{"type":"blob","content":"<5 bytes>"}'),
        ({"type": "blob", "content": "AAAAAAA="}, '{"type":"blob","content":"<5 bytes>"}'),
        ({"type": "blob", "content": ""}, '{"type":"blob","content":"<0 bytes>"}'),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAAAA=="}},
            '{"type":"image_url","image_url":{"url":"data:image/png;base64,<4 bytes>"}}',
        ),
    ],
)
def test_of_binary_content_the_size_is_told(part: object, told: str) -> None:
    assert _gen_ai(input__messages=[_message("user", part)]).prompt == told


def test_the_first_of_several_answers_counts() -> None:
    answers = [_message("assistant", _thought(f"thought {n}"), f"answer {n}") for n in (1, 2)]
    call = _gen_ai(output__messages=answers)
    assert (call.reasoning, call.result) == ("thought 1", "answer 1")
    answers.insert(0, _message("assistant", _thought("cut off")))
    call = _gen_ai(output__messages=answers, request__choice__count=3)
    assert (call.reasoning, call.result) == ("cut off", "")


def test_reasoning_and_server_tools_in_messages_of_their_own_belong_to_the_answer_after_them() -> None:
    search = {"type": "server_tool_call", "name": "web_search", "server_tool_call": {"type": "web_search"}}
    steps = [_message("assistant", part) for part in (_thought("a"), search, _thought("b"), "x", "y")]
    call = _gen_ai(output__messages=steps)
    assert (call.reasoning, call.result) == ("a\n\nb", "x")


def test_an_answer_without_a_text_is_its_tool_calls() -> None:
    call = _gen_ai(output__messages=[_message("assistant", _thought("hm"), "", TOOL_CALL, TOOL_CALL)])
    assert (call.reasoning, call.result) == ("hm", f"{TOOL_CALL_LINE}\n{TOOL_CALL_LINE}")
    assert _gen_ai(output__messages=[_message("assistant", TOOL_CALL, "So", "rry.")]).result == "Sorry."


@pytest.mark.parametrize(
    ("part", "reasoning"),
    [
        (_thought(["a", _text("b"), {"type": "summary_text", "text": "c"}, 4]), "a\n\nb\n\nc\n\n4"),
        (_thought({"steps": 2}), '{"steps":2}'),
        (_thought(7), "7"),
        ({"type": "thinking", "content": "a"}, "a"),
        ({"type": "reasoning", "text": "a"}, "a"),
        ({"type": "reasoning", "encrypted_content": "x"}, None),
    ],
)
def test_reasoning_in_any_form(part: object, reasoning: str | None) -> None:
    call = _gen_ai(output__messages=[_message("assistant", part, "answer")])
    assert (call.reasoning, call.result) == (reasoning, "answer")


def test_messages_as_the_apis_have_them() -> None:
    message = {"role": "assistant", "content": "x", "reasoning_content": None, "reasoning": "a"}
    call = _gen_ai(input__messages=[{"role": "user", "content": "q"}], output__messages=[message])
    assert (call.prompt, call.reasoning, call.result) == ("q", "a", "x")
    call = _gen_ai(output__messages=[{"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}])
    assert call.result == TOOL_CALL_LINE


# --- What came before ----------------------------------------------------------------------------


def test_prompt_and_completion() -> None:
    call = _gen_ai(
        prompt='[{"role": "user", "content": "q"}]',
        completion='[{"role": "assistant", "content": "a"}]',
        usage__prompt_tokens=1,
        usage__completion_tokens=2,
    )
    assert (call.prompt, call.result, call.input_tokens, call.output_tokens) == ("q", "a", 1, 2)


@pytest.mark.parametrize("answer", [CODE, "prose", "[1, 2]", "42", '"quoted"', '[{"a": 1}]', "", "{"])
def test_an_answer_that_happens_to_be_json_stays_as_it_is(answer: str) -> None:
    assert _gen_ai(completion=answer).result == answer
    assert _gen_ai(output__messages=answer).result == answer


def test_indexed_prompts_and_completions() -> None:
    call = _read(
        {
            "gen_ai.request.model": "m",
            "gen_ai.prompt.10.role": "user",
            "gen_ai.prompt.10.content": "third",
            "gen_ai.prompt.0.content": "first",
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.2.role": "user",
            "gen_ai.prompt.2.content": "second",
            "gen_ai.prompt.name": "no message",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "answer",
            "gen_ai.completion.0.reasoning": "because",
            "gen_ai.completion.1.content": "another",
        }
    )
    assert call.prompt == "[system]\nfirst\n\n[user]\nsecond\n\n[user]\nthird"
    assert (call.reasoning, call.result, call.model) == ("because", "answer", "m")
    call = _read(
        {
            "gen_ai.request.model": "m",
            "gen_ai.completion.0.tool_calls.0.name": "f",
            "gen_ai.completion.0.tool_calls.0.arguments": "{}",
        }
    )
    assert call.result == '{"type":"tool_call","name":"f","arguments":"{}"}'


# --- OpenInference -------------------------------------------------------------------------------


def test_open_inference() -> None:
    call = _read(
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            "llm.token_count.prompt": 229,
            "llm.token_count.completion": 21,
            "llm.token_count.total": 250,
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "You are the Coder.",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.contents.0.message_content.type": "text",
            "llm.input_messages.1.message.contents.0.message_content.text": "What is this?",
            "llm.input_messages.1.message.contents.1.message_content.type": "image",
            "llm.input_messages.1.message.contents.1.message_content.image.image.url": "data:;base64,AAAA",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.contents.0.message_content.type": "reasoning",
            "llm.output_messages.0.message.contents.0.message_content.text": "A plot.",
            "llm.output_messages.0.message.contents.1.message_content.type": "text",
            "llm.output_messages.0.message.contents.1.message_content.text": "A roofline.",
            "input.value": '{"messages": []}',
            "input.mime_type": "application/json",
            "output.value": "{}",
        }
    )
    assert call == ModelCall(
        prompt="[system]\nYou are the Coder.\n\n[user]\nWhat is this?\n"
        '{"type":"image","url":"data:;base64,<3 bytes>"}',
        reasoning="A plot.",
        result="A roofline.",
        model="m",
        input_tokens=229,
        output_tokens=21,
    )


def test_open_inference_reasoning_beside_the_content_and_before_it() -> None:
    beside = {"llm__output_messages__0__message__reasoning_content": "because"}
    call = _open_inference(**beside, llm__output_messages__0__message__content="x")
    assert (call.reasoning, call.result) == ("because", "x")
    call = _open_inference(**beside, llm__output_messages__1__message__content="x")
    assert (call.reasoning, call.result) == ("because", "x")


def test_open_inference_tool_calls() -> None:
    call = _read(
        {
            "openinference.span.kind": "LLM",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.1.tool_call.function.name": "second",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "1",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "first",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"a": 23}',
        }
    )
    assert call.result is not None
    assert [json.loads(line) for line in call.result.splitlines()] == [
        {"type": "tool_call", "id": "1", "name": "first", "arguments": '{"a": 23}'},
        {"type": "tool_call", "name": "second"},
    ]


def test_open_inference_completions() -> None:
    call = _open_inference(llm__prompts__0__prompt__text="q", llm__choices__0__completion__text="a")
    assert (call.prompt, call.result) == ("q", "a")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("text", id="text"),
        pytest.param('[{"role": "user", "content": "q"}]', id="JSON"),
        pytest.param(DEEP, id="100,000 brackets"),
    ],
)
def test_without_messages_the_values_are_taken_as_they_are(value: str) -> None:
    call = _open_inference(
        input__value=value,
        output__value=value,
        llm__input_messages__0__message__role="user",  # and nothing of what the message says
    )
    assert (call.prompt, call.reasoning, call.result) == (value, None, value)


# --- Whatever the attributes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param('[{"role": "user", "parts": [{"type": "text", "content": "cut of', id="cut off"),
        pytest.param(DEEP, id="nested 100,000 deep"),
        pytest.param('{"role":"u","parts":' * 100_000, id="messages 100,000 deep"),
        pytest.param('[{"role": "user", "parts": [' + "9" * 5_000 + "]}]", id="a number of 5,000 digits"),
        pytest.param("\ud800 [", id="a lone surrogate"),
        pytest.param("\x00", id="NUL"),
    ],
)
def test_what_cannot_be_read_is_a_text_as_it_stands(broken: str) -> None:
    call = _gen_ai(input__messages=broken, output__messages=broken)
    assert (call.prompt, call.reasoning, call.result) == (broken, None, broken)
    assert _gen_ai(system_instructions=broken).prompt == f"[system]\n{broken}"


def test_json_that_is_read_but_not_written_again_is_a_text_as_it_stands() -> None:
    for depth in (400, 900, 1_500, 5_000, 20_000):  # where each of the two gives up depends on the Python
        nested = '{"a":' * depth + "1" + "}" * depth
        source = f'[{{"role":"user","parts":[{nested}]}}]'
        assert _gen_ai(input__messages=source).prompt in (source, nested)


def test_structures_nested_100_000_deep_and_circles_do_not_raise() -> None:
    deep: object = "x"
    for _ in range(100_000):
        deep = [deep]
    circle: list[object] = []
    circle.append(circle)
    for value in (deep, circle, {1: deep}, {(1, 2): 3}):
        call = _gen_ai(input__messages=[_message("user", value)], output__messages=value, prompt=value)
        assert call.prompt
        assert call.result
        assert _open_inference(llm__input_messages__0__message__content=value, output__value=value).result


def test_a_huge_index_costs_nothing_and_counts_where_it_is() -> None:
    call = _read(
        {
            "openinference.span.kind": "LLM",
            "llm.input_messages.999999999999.message.content": "last",
            "llm.input_messages.5.message.content": "first",
            "llm.input_messages." + "9" * 100_000 + ".message.content": "no index",
            "llm.input_messages.-1.message.content": "no index",
            "llm.input_messages.٣.message.content": "no index",
        }
    )
    assert call.prompt == "[unknown]\nfirst\n\n[unknown]\nlast"


def test_what_is_no_count_is_ignored() -> None:
    for count in (True, -1, 2**63, 10**5_000, 1.5, "7", None, [7]):
        call = _gen_ai(usage__input_tokens=count, usage__prompt_tokens=3, usage__output_tokens=count)
        assert (call.input_tokens, call.output_tokens) == (3, None)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"gen_ai.input.messages": "[" * 3_000_000}, id="brackets"),
        pytest.param({"gen_ai.input.messages": [_message("user", "data:" * 400_000, 5)]}, id="no data URL"),
        pytest.param({"gen_ai.input.messages": [_message("user", {"x": "data:" * 400_000})]}, id="in a part"),
        pytest.param({"gen_ai.output.messages": [_message("a")] * 50_000}, id="50,000 empty answers"),
        pytest.param(
            {f"llm.output_messages.0.message.contents.{n}.x": n for n in range(50_000)}, id="50,000 parts"
        ),
        pytest.param({"llm.input_messages.0." + "message.contents.0." * 100_000: 1}, id="a long name"),
    ],
)
def test_time_is_linear(given: dict[str, Any]) -> None:
    begin = time.perf_counter()
    _read({"gen_ai.operation.name": "chat", **given})
    assert time.perf_counter() - begin < 5


_values: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.binary()
    | st.text(st.characters(categories=None))
    | st.sampled_from(["text", "reasoning", "blob", "tool_call", "[", CODE, "data:a/b;base64,AA"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(
            st.sampled_from(["role", "parts", "content", "text", "type", "tool_calls", "reasoning"])
            | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_MESSAGE_FIELDS = (
    "role",
    "content",
    "reasoning_content",
    "contents.0.message_content.type",
    "contents.0.message_content.text",
    "tool_calls.0.tool_call.function.name",
)
_names = st.text() | st.sampled_from(
    [
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.operation.name",
        "gen_ai.request.model",
        "gen_ai.request.choice.count",
        "gen_ai.usage.input_tokens",
        "gen_ai.prompt",
        "gen_ai.prompt.3.content",
        "gen_ai.prompt..content",
        "gen_ai.completion",
        "gen_ai.completion.0.content",
        "gen_ai.completion.0.tool_calls.7.name",
        "input.value",
        "output.value",
        "llm.model_name",
        "llm.request.type",
        *(
            f"llm.{side}_messages.{index}.message.{field}"
            for side in ("input", "output")
            for index in (0, 1, 10**17, "x")
            for field in _MESSAGE_FIELDS
        ),
    ]
)


@given(
    given=st.dictionaries(
        _names, _values | _values.map(lambda value: json.dumps(value, default=str)), max_size=12
    ),
    kind=st.sampled_from([{"openinference.span.kind": "LLM"}, {"gen_ai.operation.name": "chat"}, {}]),
)
def test_nothing_raises_whatever_the_attributes(given: dict[str, Any], kind: dict[str, str]) -> None:
    everything = {**given, **kind}
    call = read_model_call(everything)
    assert (call is not None) == is_model_call(everything)
    if call is not None:
        for told in (call.prompt, call.reasoning, call.result, call.model):
            assert told is None or isinstance(told, str)
        for count in (call.input_tokens, call.output_tokens):
            assert count is None or (type(count) is int and count >= 0)
        assert call.reasoning is None or call.result is not None


@given(asked=st.text(), thought=st.text(), answered=st.text(min_size=1))
def test_any_texts_survive(asked: str, thought: str, answered: str) -> None:
    call = _gen_ai(
        input__messages=json.dumps([_message("user", asked)]),
        output__messages=json.dumps([_message("assistant", _thought(thought), answered)], ensure_ascii=False),
    )
    assert (call.prompt, call.reasoning, call.result) == (asked, thought, answered)


# --- Real spans ----------------------------------------------------------------------------------


class _Model(BaseHTTPRequestHandler):
    """Answers every request in the same way, as OpenAI's two APIs do."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(_RESPONSE if self.path.endswith("/responses") else _COMPLETION).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


_COMPLETION = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "answered",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": CODE, "reasoning_content": "Rows."},
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
}
_RESPONSE = {
    "id": "1",
    "object": "response",
    "created_at": 1,
    "model": "answered",
    "status": "completed",
    "output": [
        {
            "type": "reasoning",
            "id": "2",
            "status": "completed",
            "summary": [
                {"type": "summary_text", "text": "Rows."},
                {"type": "summary_text", "text": "Tiles."},
            ],
        },
        {
            "type": "message",
            "id": "3",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": CODE, "annotations": []}],
        },
    ],
    "parallel_tool_calls": False,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 7,
    },
}


@contextmanager
def _instrumented_client(exporter: InMemorySpanExporter) -> Iterator[Any]:
    """OpenAI's client under OpenTelemetry's instrumentation, with a model to talk to."""
    openai = pytest.importorskip("openai")
    instrumentor = pytest.importorskip("opentelemetry.instrumentation.genai.openai").OpenAIInstrumentor()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with provider_of(exporter) as provider:
            instrumentor.instrument(tracer_provider=provider)
            url = f"http://127.0.0.1:{server.server_address[1]}/v1"
            with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
                yield client
            instrumentor.uninstrument()
    finally:
        server.shutdown()
        server.server_close()


def _ask_for_a_completion(client: Any) -> None:
    client.chat.completions.create(
        model="asked",
        messages=[
            {"role": "system", "content": "You are the Coder."},
            {"role": "user", "content": "Operator: swish"},
        ],
    )


def _ask_for_a_response(client: Any) -> None:
    client.responses.create(model="asked", instructions="You are the Coder.", input="Operator: swish")


def _span_of(ask: Callable[[Any], None]) -> ReadableSpan:
    exporter = InMemorySpanExporter()
    with _instrumented_client(exporter) as client:
        ask(client)
    [span] = exporter.get_finished_spans()
    return span


@pytest.mark.parametrize("structured", [False, True], ids=["as JSON", "as a structure"])
@pytest.mark.parametrize("ask", [_ask_for_a_completion, _ask_for_a_response])
def test_a_span_of_the_instrumentation_of_openais_client(
    ask: Callable[[Any], None], structured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    given: dict[str, Any] = dict(_span_of(ask).attributes or {})
    if structured:  # as the conventions allow, and as its events have them already
        for name in ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"):
            given |= {name: json.loads(given[name])} if name in given else {}
    call = _read(given)
    assert call.prompt == "[system]\nYou are the Coder.\n\n[user]\nOperator: swish"
    assert call.result == CODE
    assert (call.model, call.input_tokens, call.output_tokens) == ("answered", 3, 4)
    if ask is _ask_for_a_response:
        assert call.reasoning == "Rows.\n\nTiles."
    else:  # 1.3b0 leaves the reasoning of chat completions out
        assert call.reasoning in (None, "Rows.")


def test_a_span_of_the_instrumentation_without_content() -> None:
    call = _read(dict(_span_of(_ask_for_a_completion).attributes or {}))
    assert call == ModelCall(None, None, None, "answered", 3, 4)
