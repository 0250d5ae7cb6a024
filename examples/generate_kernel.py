"""Agents design, write, verify and mend real kernels, and every action of theirs is traced.

    python examples/generate_kernel.py [--op swish softmax …] [--log-dir DIR]

A Designer sketches, a Coder writes a Numba kernel, a Verifier compiles it, runs it
against NumPy and times both, and a Conductor judges; a kernel that fails goes back to
the Coder with the log.

With OPENAI_API_KEY or OPENAI_BASE_URL set, the model behind them answers (OPENAI_MODEL
names it). Without them a scripted model does, which this program serves on loopback: the
kernels, their faults and their times are real all the same.

With OTEL_EXPORTER_OTLP_ENDPOINT set, as http://localhost:4318, the same spans go to Jaeger or
a Collector (``pip install opentelemetry-exporter-otlp-proto-http``).

Needs ``pip install 'otel-kernel-trace[example]'``; neither a GPU nor a compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import openai
from kernel_generation import scripted_model
from kernel_generation.operators import FRAMEWORK, IMPL_TYPE, OPERATORS, Operator
from kernel_generation.verifier import verify
from opentelemetry import trace
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_kernel_trace import (
    Action,
    ActionType,
    KernelTracer,
    LinkedSpanExporter,
    VerifierAction,
    configure,
)
from otel_kernel_trace.reply import parse

MAX_ATTEMPTS = 5

_ROLES = {
    "designer": "You are the Designer of {impl_type} kernels. Sketch the kernel in pseudocode.",
    "coder": "You are the Coder of {impl_type} kernels. Write a Python module with a function "
    "kernel(*inputs) that returns a new array and does its work in a function compiled by numba.njit. "
    "Import what you use.",
    "conductor": "You are the Conductor. Judge the work of the other agents and say what to change.",
}
_ANSWER = {
    "designer": 'Answer with one JSON object {"code": "<the sketch>", "description": "<why so>"}.',
    "coder": 'Answer with one JSON object {"code": "<the module>", "description": "<what it does>"}.',
    "conductor": 'Answer with one JSON object {"result": 0 to go on or 1 to mend, "reason": "…", '
    '"suggestions": "…"}.',
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered."""

    text: str
    reasoning: str


@dataclass(frozen=True, slots=True)
class Step:
    """A row of the table at the end."""

    op_name: str
    number: int
    action: str
    seconds: float
    outcome: str


class Model:
    """Any model behind an OpenAI-compatible endpoint.

    Nothing is traced here: opentelemetry-instrumentation-genai-openai makes a span of every
    call, and the action around it takes prompt, result and tokens from there.
    """

    def __init__(self, name: str, base_url: str | None, api_key: str | None) -> None:
        self.name = name
        self._client = openai.OpenAI(base_url=base_url, api_key=api_key)

    def ask(self, role: str, prompt: str) -> Reply:
        """One question, one answer.

        Raises:
            openai.OpenAIError: the model can't be reached or refuses.
        """
        system = f"{_ROLES[role].format(impl_type=IMPL_TYPE)}\n{_ANSWER[role]}"
        completion = self._client.chat.completions.create(
            model=self.name,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": prompt}],
        )
        message = completion.choices[0].message
        # Servers that show a model's thoughts call them so; neither the client nor its
        # instrumentation has a name for them.
        reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
        return Reply(message.content or "", reasoning if isinstance(reasoning, str) else "")


class Task:
    """One operator's way to a kernel."""

    def __init__(self, operator: Operator, model: Model, task_id: str, time_limit: float) -> None:
        self._operator = operator
        self._model = model
        self._time_limit = time_limit
        self._tracer = KernelTracer(operator.name, task_id)
        self.steps: list[Step] = []

    def run(self) -> bool:
        """Whether a kernel passed."""
        with self._tracer:
            sketch, design = self._agent("designer", ActionType.DO_DESIGNER, self._task())
            self._judge(design, f"The sketch:\n{sketch}")
            prompt = f"{self._task()}\n\nThe sketch:\n{sketch}"
            source, _ = self._agent("coder", ActionType.DO_CODER, prompt)
            for attempt in range(MAX_ATTEMPTS):
                suggestions = self._verify(source)
                if suggestions is None:
                    return True
                if attempt + 1 < MAX_ATTEMPTS:
                    fix = f"{prompt}\n\nThis kernel failed:\n{source}\n\n{suggestions}"
                    source, _ = self._agent("coder", ActionType.FIX_CODER, fix)
        return False

    def _task(self) -> str:
        operator = self._operator
        return (
            f"Operator: {operator.name}\n{operator.summary}\n\n"
            f"The reference, in {FRAMEWORK}:\n{operator.reference}\n"
            f"Shapes of the inputs, by case: {operator.shapes}; dtypes float32 and float64."
        )

    def _agent(self, role: str, action_type: ActionType, prompt: str) -> tuple[str, Action]:
        begin = time.monotonic()
        agent = self._tracer.designer if role == "designer" else self._tracer.coder
        with agent(action_type=action_type) as action:
            reply = self._model.ask(role, prompt)
            action.record(reasoning=reply.reasoning)
        answer = parse(reply.text)
        self._note(action.step, action_type.name, begin, answer.description if answer else "no JSON object")
        return answer.code if answer else reply.text, action

    def _verify(self, source: str) -> str | None:
        """None for a kernel that passed, else what the Conductor says of it."""
        begin = time.monotonic()
        with self._tracer.verifier(framework=FRAMEWORK, impl_type=IMPL_TYPE) as action:
            verdict = verify(self._operator, source, self._tracer, self._time_limit)
            action.record(
                verdict.passed,
                verdict.log,
                verdict.profile or None,
                reference=self._operator.reference,
                implementation=source,
                script=verdict.script,
            )
        if verdict.passed:
            speedup = json.loads(verdict.profile)["speedup"]
            self._note(action.step, "VERIFY", begin, f"passed, {speedup}x the speed of {FRAMEWORK}")
            return None
        self._note(action.step, "VERIFY", begin, f"FAILED: {verdict.error}")
        prompt = (
            f"Operator: {self._operator.name}\n\nThe kernel:\n{source}\n\n"
            f"The log of the verification:\n{verdict.log}"
        )
        return self._judge(action, prompt)

    def _judge(self, judged: Action | VerifierAction, about: str) -> str:
        begin = time.monotonic()
        prompt = about if about.startswith("Operator: ") else f"{self._task()}\n\n{about}"
        with self._tracer.conductor(judges=judged) as action:
            reply = self._model.ask("conductor", prompt)
            action.record(reasoning=reply.reasoning)
        self._note(action.step, action.action_type, begin, reply.text)
        return reply.text

    def _note(self, number: int, action: str, begin: float, outcome: str) -> None:
        step = Step(self._operator.name, number, action, time.monotonic() - begin, " ".join(outcome.split()))
        self.steps.append(step)
        print(f"  {step.op_name:17} {step.number:2} {step.action:14} {step.outcome[:76]}", flush=True)


def main() -> int:
    """Exit status: 0 where every operator got a kernel that passed."""
    arguments = _arguments()
    provider = TracerProvider(resource=Resource.create({"service.name": "generate_kernel"}))
    trace.set_tracer_provider(provider)
    configure(arguments.log_dir)
    _send_to_backend(provider)
    # What models are asked and answer goes on the spans of their calls, and from there to the actions.
    os.environ.setdefault("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    OpenAIInstrumentor().instrument()

    task_id = time.strftime("%m%d%H%M%S")
    with _model() as model:
        print(f"Model: {model.name}\n")
        tasks = [Task(OPERATORS[name], model, task_id, arguments.time_limit) for name in arguments.op]
        with ThreadPoolExecutor(max_workers=2) as pool:
            try:
                passed = list(pool.map(Task.run, tasks))
            except openai.OpenAIError as error:
                print(f"\nThe model gave no answer: {error}", file=sys.stderr)
                return 2
    provider.shutdown()

    log_dir = Path(arguments.log_dir).expanduser().resolve()
    _print_tree(log_dir, arguments.op, task_id)
    _print_table([step for task in tasks for step in task.steps], model.name)
    print(f"\n{sum(passed)} of {len(passed)} operators have a kernel that passed.")
    print(f"The tree: {log_dir}")
    return 0 if all(passed) else 1


def _send_to_backend(provider: TracerProvider) -> None:
    """Send to Jaeger, a Collector or whatever the environment names, with links for long texts."""
    if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        provider.add_span_processor(BatchSpanProcessor(LinkedSpanExporter(OTLPSpanExporter())))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Generate kernels with agents, and trace them.",
        epilog="OPENAI_API_KEY or OPENAI_BASE_URL, and OPENAI_MODEL, choose the model; without them a "
        "scripted one answers. The task id in file names is the time of the start: month, day, hour, "
        "minute, second.",
    )
    parser.add_argument("--op", nargs="+", choices=OPERATORS, default=list(OPERATORS), help="default: all")
    parser.add_argument("--log-dir", default="./kernel_trace_logs", help="root of the tree (%(default)s)")
    parser.add_argument(
        "--time-limit", type=float, default=12.0, metavar="SECONDS", help="for one verification (%(default)g)"
    )
    return parser.parse_args()


@contextmanager
def _model() -> Iterator[Model]:
    """The model of the environment, else the scripted one."""
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"):
        # Servers of one's own often want no key, but the client does.
        yield Model(
            os.environ.get("OPENAI_MODEL", "gpt-4o-mini"), None, os.environ.get("OPENAI_API_KEY", "none")
        )
        return
    print("Neither OPENAI_API_KEY nor OPENAI_BASE_URL is set: a SCRIPTED model answers, no language model.")
    with scripted_model.serve() as base_url:
        yield Model(scripted_model.MODEL, base_url, "none")


def _print_tree(log_dir: Path, op_names: list[str], task_id: str) -> None:
    print(f"\n{log_dir}{os.sep}")
    for op_name in op_names:
        folder = log_dir / op_name
        print(f"  {op_name}{os.sep}")
        for path in sorted(folder.rglob("*")):
            relative = path.relative_to(folder)
            if path.is_file() and any(part.startswith(f"I{task_id}_") for part in relative.parts):
                print(f"    {relative}  ({path.stat().st_size} bytes)")


def _print_table(steps: list[Step], model: str) -> None:
    print(f"\n{'op':17} step {'action':15} {'seconds':>7}  outcome   (model: {model})")
    for step in steps:
        outcome = step.outcome if len(step.outcome) <= 90 else f"{step.outcome[:89]}…"
        print(f"{step.op_name:17} {step.number:4} {step.action:15} {step.seconds:7.2f}  {outcome}")


if __name__ == "__main__":
    sys.exit(main())
