"""A scripted model on loopback, for machines without a real one.

It speaks the protocol of OpenAI's chat completions, so that the pipeline talks to it
with the same client as to any other model. Its replies are read from files; there
is no intelligence in it, and it says so in its name and in every reply.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from otel_kernel_trace.diagnostics import first_error, parse_diagnostics

MODEL = "scripted-model-not-an-llm"
LABEL = "[scripted reply, not a language model's]"

_attempts: Counter[str] = Counter()
_lock = threading.Lock()

_REPLIES = Path(__file__).with_name("scripted_replies")
_ROLE = re.compile(r"You are the (Designer|Coder|Conductor)")
_OPERATOR = re.compile(r"^Operator: (\w+)", re.MULTILINE)


@contextmanager
def serve() -> Iterator[str]:
    """Serve the scripted model while the block runs; gives its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def _reply(role: str, operator: str, prompt: str) -> tuple[str, str]:
    """What the script has for this request: content and reasoning."""
    if role == "Conductor":
        return _judgement(prompt)
    if role == "Designer":
        sketch = (_REPLIES / f"{operator}_design.txt").read_text(encoding="utf-8")
        answer = {"code": sketch, "description": f"{LABEL} Sketch for {operator}."}
        return json.dumps(answer), f"{LABEL} The sketch follows the reference, row by row."
    with _lock:
        _attempts[operator] += 1
        attempt = _attempts[operator]
    files = sorted(_REPLIES.glob(f"{operator}_kernel_*.py"))
    source = files[min(attempt, len(files)) - 1].read_text(encoding="utf-8")
    answer = {"code": source, "description": f"{LABEL} Attempt {attempt} at {operator}."}
    # As models do: the object stands in a fence, with words around it.
    content = f"Here is the kernel.\n\n```json\n{json.dumps(answer)}\n```\n"
    return content, f"{LABEL} {source.partition(chr(10))[0]}"


def _judgement(prompt: str) -> tuple[str, str]:
    failed = re.search(r"^The log of the verification:\n(.*)", prompt, re.MULTILINE | re.DOTALL)
    if failed is None:
        return json.dumps({"result": 0, "reason": LABEL, "suggestions": ""}), f"{LABEL} Nothing to object."
    error = first_error(parse_diagnostics(failed[1]))
    telling = error.headline if error else failed[1].strip().splitlines()[-1]
    answer = {"result": 1, "reason": telling, "suggestions": f"{LABEL} Mend this first: {telling}"}
    return json.dumps(answer), f"{LABEL} {telling}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions":
            self._send(404, {"error": {"message": f"no {self.path} here: chat completions only"}})
            return
        texts = [str(message["content"]) for message in body["messages"]]
        role, operator = _ROLE.search(texts[0]), _OPERATOR.search(texts[-1])
        if role is None or operator is None:
            self._send(400, {"error": {"message": "the script knows the prompts of generate_kernel.py only"}})
            return
        content, reasoning = _reply(role[1], operator[1], texts[-1])
        asked, answered = sum(map(len, texts)) // 4, (len(content) + len(reasoning)) // 4
        message = {"role": "assistant", "content": content, "reasoning_content": reasoning}
        self._send(
            200,
            {
                "id": f"scripted-{time.time_ns()}",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": MODEL,
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {
                    "prompt_tokens": asked,
                    "completion_tokens": answered,
                    "total_tokens": asked + answered,
                },
            },
        )

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing: the pipeline tells what happens."""

    def _send(self, status: int, body: dict[str, object]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
