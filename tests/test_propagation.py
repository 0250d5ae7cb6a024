"""A task goes on in other processes and on other machines."""

from __future__ import annotations

import copy
import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path

import pytest
from opentelemetry import baggage, context
from opentelemetry import trace as trace_api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Span

from otel_kernel_trace import KernelTracer, KernelTraceSpanExporter, configure
from otel_kernel_trace.indexed import Passed, indexed_spans
from otel_kernel_trace.store import Store
from otel_kernel_trace.transfer import merge
from tests.tree import tree

_CHILD = """
import sys
from otel_kernel_trace import KernelTracer, configure

configure(sys.argv[1])
with KernelTracer.from_carrier() as tracer:
    for text in sys.argv[2:]:
        with tracer.coder(prompt=text) as action:
            action.record(text)
"""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def provider(logs: Path) -> Iterator[TracerProvider]:
    with _provider(logs) as provider:
        yield provider


@contextmanager
def _provider(log_dir: Path, sampler: Sampler = ALWAYS_ON) -> Iterator[TracerProvider]:
    provider = TracerProvider(shutdown_on_exit=False, sampler=sampler)
    configure(log_dir, tracer_provider=provider)
    yield provider
    provider.shutdown()


@pytest.fixture
def child(tmp_path: Path) -> Path:
    """A program that goes on with a task: an action for each of its arguments but the first, the log_dir."""
    script = tmp_path / "child.py"
    script.write_text(_CHILD)
    return script


def _run(script: Path, environment: Mapping[str, str], log_dir: Path, *texts: str) -> None:
    done = subprocess.run(
        [sys.executable, str(script), str(log_dir), *texts],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def _act(tracer: KernelTracer, text: str) -> int:
    with tracer.coder(prompt=text) as action:
        action.record(text)
    return action.step


def _prompts(log_dir: Path) -> dict[str, str]:
    """Prompts by step, of op "swish" and task "1"."""
    return {path.split("_")[1]: text for path, text in tree(log_dir).items() if path.endswith("_prompt.txt")}


def _actions(log_dir: Path) -> dict[str, ReadableSpan]:
    """Spans in the index by the name of the file of their prompt, without its end."""
    return {
        str(span.attributes["kernel_trace.part.prompt.path"]).rpartition("_")[0]: span
        for span in indexed_spans(Store(str(log_dir)), Passed())
        if span.attributes and "kernel_trace.part.prompt.path" in span.attributes
    }


def _stands_under(span: ReadableSpan, parent: Span) -> bool:
    assert span.context is not None
    own = parent.get_span_context()
    return span.parent is not None and (span.context.trace_id, span.parent.span_id) == (
        own.trace_id,
        own.span_id,
    )


# --- A subprocess -------------------------------------------------------------------------------


def test_a_subprocess_in_the_same_tree(logs: Path, provider: TracerProvider, child: Path) -> None:
    with KernelTracer("swish", "1", provider) as tracer:
        assert _act(tracer, "parent") == 1
        with tracer.action("delegate", prompt="go") as delegate:
            _run(child, tracer.environment(steps=2), logs, "first", "second")
        assert _act(tracer, "parent again") == 5
    assert _prompts(logs) == {
        "S01": "parent",
        "S02": "go",
        "S03": "first",
        "S04": "second",
        "S05": "parent again",
    }
    spans = _actions(logs)
    for step in (3, 4):
        assert _stands_under(spans[f"swish/I1_S0{step}_swish_DO_CODER"], delegate.span)
    assert not _stands_under(spans["swish/I1_S05_swish_DO_CODER"], delegate.span)


def test_under_the_tasks_root_where_no_span_is_current(
    logs: Path, provider: TracerProvider, child: Path
) -> None:
    with KernelTracer("swish", "1", provider) as tracer:
        _run(child, tracer.environment(), logs, "child")
        _act(tracer, "parent")
    spans = _actions(logs)
    of_child, of_parent = (spans[f"swish/I1_S0{step}_swish_DO_CODER"] for step in (1, 2))
    assert of_child.context is not None
    assert of_parent.context is not None
    assert of_child.context.trace_id == of_parent.context.trace_id
    assert of_child.parent is not None
    assert of_parent.parent is not None
    assert of_child.parent.span_id == of_parent.parent.span_id


def test_a_tree_of_its_own_is_merged_with_every_step_in_its_place(
    tmp_path: Path, logs: Path, provider: TracerProvider, child: Path
) -> None:
    own = tmp_path / "own"
    with KernelTracer("swish", "1", provider) as tracer:
        _act(tracer, "parent")
        _run(child, tracer.environment(steps=2), own, "first", "second")
        _act(tracer, "parent again")
    assert _prompts(own) == {"S02": "first", "S03": "second"}
    assert _prompts(logs) == {"S01": "parent", "S04": "parent again"}
    merged = tmp_path / "merged"
    done = merge([str(logs), str(own)], KernelTraceSpanExporter(merged))
    assert (done.actions, done.failed) == (4, 0)
    assert tree(merged) == {**tree(logs), **tree(own)}
    again = merge([str(own), str(logs)], KernelTraceSpanExporter(merged))
    assert (again.actions, again.known) == (0, 5)  # the root, too
    # Or into the parent's own tree.
    merge([str(own)], KernelTraceSpanExporter(logs))
    assert tree(logs) == tree(merged)


def test_merging_what_went_past_its_steps_overwrites_nothing(
    tmp_path: Path, logs: Path, provider: TracerProvider, child: Path
) -> None:
    own = tmp_path / "own"
    with KernelTracer("swish", "1", provider) as tracer:
        _run(child, tracer.environment(), own, "first", "second", "third")
        for text in ("parent", "parent again"):
            _act(tracer, text)
    merge([str(own)], KernelTraceSpanExporter(logs))
    prompts = _prompts(logs)
    assert len(prompts) == 5
    assert set(prompts.values()) == {"first", "second", "third", "parent", "parent again"}
    assert [prompts[step] for step in ("S01", "S02", "S03")] == ["first", "parent", "parent again"]


def test_a_childs_actions_beyond_its_steps_go_after_the_last(
    logs: Path, provider: TracerProvider, child: Path
) -> None:
    with KernelTracer("swish", "1", provider) as tracer:
        one, other = tracer.environment(), tracer.environment(steps=2)
        _run(child, one, logs, "one", "one more")
        _run(child, other, logs, "other", "other, too")
    assert _prompts(logs) == {"S01": "one", "S02": "other", "S03": "other, too", "S04": "one more"}


def test_eight_children_at_once_keep_to_their_steps(
    logs: Path, provider: TracerProvider, child: Path
) -> None:
    with KernelTracer("swish", "1", provider) as tracer:
        children = [
            subprocess.Popen(
                [sys.executable, str(child), str(logs), *(f"{number}.{n}" for n in range(3))],
                env=tracer.environment(steps=3),
            )
            for number in range(8)
        ]
        for process in children:
            assert process.wait(60) == 0
        assert _act(tracer, "parent") == 25
    expected = {f"S{1 + 3 * number + n:02d}": f"{number}.{n}" for number in range(8) for n in range(3)}
    assert _prompts(logs) == {**expected, "S25": "parent"}
    assert len({span.context.trace_id for span in _actions(logs).values() if span.context}) == 1


def test_eight_children_at_once_that_go_past_their_steps_share_none(
    logs: Path, provider: TracerProvider, child: Path
) -> None:
    with KernelTracer("swish", "1", provider) as tracer:
        children = [
            subprocess.Popen(
                [sys.executable, str(child), str(logs), *(f"{number}.{n}" for n in range(3))],
                env=tracer.environment(),
            )
            for number in range(8)
        ]
        for number in range(3):
            _act(tracer, f"parent.{number}")
        for process in children:
            assert process.wait(60) == 0
    names = [*map(str, range(8)), "parent"]
    texts = list(_prompts(logs).values())
    assert sorted(texts) == sorted(f"{name}.{n}" for name in names for n in range(3))


def test_a_child_of_a_child(logs: Path, provider: TracerProvider) -> None:
    script = (
        "import subprocess, sys; from otel_kernel_trace import KernelTracer, configure; "
        "configure(sys.argv[1]); tracer = KernelTracer.from_carrier(); "
        "level = sys.argv[2]; action = tracer.action('level', prompt=level); action.__enter__(); "
        "arguments = [sys.executable, '-c', sys.argv[3], sys.argv[1], str(int(level) + 1), sys.argv[3]]; "
        "int(level) < 3 and subprocess.run(arguments, env=tracer.environment(), check=True); "
        "action.__exit__(None, None, None)"
    )
    with KernelTracer("swish", "1", provider) as tracer:
        arguments = [sys.executable, "-c", script, str(logs), "1", script]
        subprocess.run(arguments, env=tracer.environment(), check=True, timeout=60)
    assert _prompts(logs) == {"S01": "1", "S02": "2", "S03": "3"}
    spans = [_actions(logs)[f"swish/I1_S0{step}_swish_level"] for step in (1, 2, 3)]
    for around, inside in itertools.pairwise(spans):
        assert around.context is not None
        assert inside.parent is not None
        assert inside.parent.span_id == around.context.span_id


def test_where_nothing_is_sampled_everything_is_on_disk(tmp_path: Path, child: Path) -> None:
    logs = tmp_path / "logs"
    with _provider(logs, ALWAYS_OFF) as provider, KernelTracer("swish", "1", provider) as tracer:
        with tracer.action("delegate", prompt="go") as delegate:
            environment = tracer.environment()
            assert environment["TRACEPARENT"].split("-")[3] in ("00", "02")
            _run(child, environment, logs, "child")
    assert _prompts(logs) == {"S01": "go", "S02": "child"}
    span = _actions(logs)["swish/I1_S02_swish_DO_CODER"]
    assert _stands_under(span, delegate.span)
    assert span.context is not None
    assert not span.context.trace_flags.sampled


@pytest.mark.parametrize(
    "closing",
    [
        "tracer.close()",
        pytest.param(
            "",
        ),
    ],
)
def test_a_program_that_ends_leaves_the_root_in_the_index(logs: Path, closing: str) -> None:
    script = (
        "import sys; from otel_kernel_trace import KernelTracer, configure; configure(sys.argv[1])\n"
        "tracer = KernelTracer('swish', '1')\n"
        "with tracer.coder(prompt='p'): pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script + closing, str(logs)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    names = [span.name for span in indexed_spans(Store(str(logs)), Passed())]
    assert sorted(names) == ["DO_CODER", "kernel_task"]


def test_a_forked_child_that_exits_leaves_the_root_to_its_parent(tmp_path: Path) -> None:
    script = """if True:
        import os, sys
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
        from otel_kernel_trace import KernelTracer

        trace.set_tracer_provider(TracerProvider())
        to_console = ConsoleSpanExporter(formatter=lambda span: span.name + os.linesep)
        trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(to_console))
        tracer = KernelTracer("swish", "1")
        with tracer.coder():
            pass
        sys.stdout.flush()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
    """
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["DO_CODER", "kernel_task"]


# --- A pool -------------------------------------------------------------------------------------


def _configured(log_dir: Path) -> None:
    configure(log_dir)


def _work(task: KernelTracer | dict[str, str], text: str) -> int:
    with task if isinstance(task, KernelTracer) else KernelTracer.from_carrier(task) as tracer:
        return _act(tracer, text)


START = pytest.mark.parametrize(
    "start",
    [multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")],
    ids=["fork", "spawn"],
)


@START
def test_a_pools_workers_get_the_tracer_itself(
    logs: Path, provider: TracerProvider, start: ForkContext | SpawnContext
) -> None:
    """A pool pickles in a thread of its own, where no span is current: actions may stand under the root."""
    texts = [f"worker {number}" for number in range(6)]
    with KernelTracer("swish", "1", provider) as tracer:
        _act(tracer, "parent")
        with start.Pool(2, _configured, (logs,)) as pool:
            steps = pool.starmap(_work, [(tracer, text) for text in texts])
        last = _act(tracer, "parent again")
    assert steps == [2, 3, 4, 5, 6, 7]
    assert last == 8
    prompts = _prompts(logs)
    assert [prompts[f"S{step:02d}"] for step in steps] == texts
    assert len(prompts) == 8
    parents = {span.parent.span_id for span in _actions(logs).values() if span.parent}
    assert len(parents) == 1  # the root


@START
def test_a_pools_workers_get_headers(
    logs: Path, provider: TracerProvider, start: ForkContext | SpawnContext
) -> None:
    with KernelTracer("swish", "1", provider) as tracer:
        with tracer.action("delegate", prompt="go") as delegate, start.Pool(2, _configured, (logs,)) as pool:
            steps = pool.starmap(_work, [(tracer.headers(), str(number)) for number in range(4)])
    assert steps == [2, 3, 4, 5]
    spans = _actions(logs)
    assert all(_stands_under(spans[f"swish/I1_S0{step}_swish_DO_CODER"], delegate.span) for step in steps)


@START
def test_a_process_gets_the_tracer_itself(
    logs: Path, provider: TracerProvider, start: ForkContext | SpawnContext
) -> None:
    with KernelTracer("swish", "1", provider) as tracer:
        with tracer.action("delegate", prompt="go") as delegate:
            process = start.Process(target=_begin, args=(logs, tracer, "child"))
            process.start()
            process.join(60)
        assert process.exitcode == 0
    assert _prompts(logs) == {"S01": "go", "S02": "child"}
    assert _stands_under(_actions(logs)["swish/I1_S02_swish_DO_CODER"], delegate.span)


def _begin(log_dir: Path, tracer: KernelTracer, text: str) -> None:
    configure(log_dir)
    _act(tracer, text)


# --- Another machine ----------------------------------------------------------------------------

_VERIFIER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from otel_kernel_trace import KernelTracer, configure

configure(sys.argv[1])

class Verifier(BaseHTTPRequestHandler):
    def do_POST(self):
        kernel = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with KernelTracer.from_carrier(self.headers) as tracer:
            with tracer.verifier(framework="numpy", impl_type="numba") as verification:
                verification.record("ok" in kernel, "" if "ok" in kernel else "wrong", implementation=kernel)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(verification.step).encode())

    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 0), Verifier)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def _remote_verifier(log_dir: Path) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", _VERIFIER, str(log_dir)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/"
        finally:
            server.kill()


def _verify(url: str, kernel: str, headers: dict[str, str]) -> int:
    request = urllib.request.Request(url, kernel.encode(), headers)
    http = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with http.open(request, timeout=20) as answer:
        return int(answer.read())


def test_a_remote_verifier(tmp_path: Path, logs: Path, provider: TracerProvider) -> None:
    remote = tmp_path / "remote"
    op_name = "矩阵乘 a/b, 50%;\n"
    with _remote_verifier(remote) as url, KernelTracer(op_name, "t 1", provider) as tracer:
        actions = []
        for kernel in ("wrong", "ok"):
            with tracer.coder(prompt="p") as action:
                action.record(kernel)
                step = _verify(url, kernel, tracer.headers())
                assert step == action.step + 1
            actions.append(action)
    done = merge([str(remote)], KernelTraceSpanExporter(logs))
    assert (done.actions, done.failed) == (2, 0)
    files = {path.partition("/")[2]: text for path, text in tree(logs).items()}
    op = "矩阵乘 a%2Fb, 50%25;%0A"
    assert {name: text for name, text in files.items() if "verify" in name or "VERIFY" in name} == {
        f"It 1_S02_{op}_VERIFY_error_log.txt": "wrong",
        f"It 1_S02_verify/{op}_numba.py": "wrong",
        f"It 1_S04_verify/{op}_numba.py": "ok",
    }
    assert files[f"It 1_S03_{op}_DO_CODER_result.txt"] == "ok"
    verified = [span for span in indexed_spans(Store(str(logs)), Passed()) if span.name == "VERIFY"]
    assert len(verified) == 2
    for span, action in zip(verified, actions, strict=True):
        assert _stands_under(span, action.span)
        assert span.attributes is not None
        assert span.attributes["kernel_trace.op_name"] == op_name


def test_where_a_server_span_is_current_the_actions_stand_under_that(
    logs: Path, provider: TracerProvider
) -> None:
    with KernelTracer("swish", "1", provider) as tracer, tracer.action("delegate"):
        headers = tracer.headers()
    arrived = KernelTracer.from_carrier(headers, provider)
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    around = TraceContextTextMapPropagator().extract(headers)
    with provider.get_tracer("http").start_as_current_span("POST /verify", around) as server:
        _act(arrived, "here")
    assert _stands_under(_actions(logs)["swish/I1_S02_swish_DO_CODER"], server)


def test_spans_of_other_traces_are_no_parents(logs: Path, provider: TracerProvider) -> None:
    with KernelTracer("swish", "1", provider) as tracer, tracer.action("delegate") as delegate:
        headers = tracer.headers()
    with provider.get_tracer("other").start_as_current_span("something else"):
        _act(KernelTracer.from_carrier(headers, provider), "here")
    assert _stands_under(_actions(logs)["swish/I1_S02_swish_DO_CODER"], delegate.span)


# --- Names --------------------------------------------------------------------------------------

NAMES = [
    "",
    " ",
    " padded\t",
    "/",
    "..",
    "a,b;c=d",
    "100%",
    "%2C%252C",
    "a+b c",
    '"quoted"\\',
    "\0",
    "two\r\nlines\n",
    "Set-Cookie: x\r\n\r\n<html>",
    "\udfff\ud800",
    "矩阵乘",
    "\N{PILE OF POO}",
    "x" * 300,
    "é" * 100,
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_carried_unharmed(provider: TracerProvider, name: str) -> None:
    tracer = KernelTracer(name, name[::-1], provider)
    for carrier in (tracer.headers(), tracer.environment()):
        arrived = KernelTracer.from_carrier(carrier, provider)
        assert (arrived.op_name, arrived.task_id) == (name, name[::-1])
    for field, value in tracer.headers().items():
        assert field in ("traceparent", "baggage")
        assert value.isascii()
        assert value.isprintable()


@pytest.mark.parametrize(
    "name",
    [pytest.param(char * 300) for char in ("矩", "\ud800", "\N{PILE OF POO}")],
    ids=["CJK", "surrogates", "beyond the BMP"],
)
def test_300_characters_are_carried_in_any_script(provider: TracerProvider, name: str) -> None:
    arrived = KernelTracer.from_carrier(KernelTracer(name, "1", provider).headers(), provider)
    assert arrived.op_name == name


def test_hostile_names_arrive_in_a_process(logs: Path, provider: TracerProvider, child: Path) -> None:
    name = "".join(NAMES[:-2])
    with KernelTracer(name, name, provider) as tracer:
        _run(child, tracer.environment(), logs, "child")
        _act(tracer, "parent")
    assert len({path.partition("/")[0] for path in tree(logs)}) == 1
    prompts = sorted((path, text) for path, text in tree(logs).items() if path.endswith("_prompt.txt"))
    assert [text for _, text in prompts] == ["child", "parent"]
    [names] = {(span.attributes or {}).get("kernel_trace.op_name") for span in _actions(logs).values()}
    assert names == name


@pytest.mark.parametrize(("op_name", "task_id"), [("x" * 5000, "1"), ("o", "矩" * 1000)])
def test_a_name_that_is_too_long_to_be_carried_is_told(
    provider: TracerProvider, op_name: str, task_id: str
) -> None:
    tracer = KernelTracer(op_name, task_id, provider)
    for carry in (tracer.headers, tracer.environment):
        with pytest.raises(ValueError, match="too long to be carried"):
            carry()


def test_what_could_not_be_carried_takes_no_step(provider: TracerProvider) -> None:
    tracer = KernelTracer("x" * 5000, "1", provider)
    with pytest.raises(ValueError, match="too long"):
        tracer.headers(steps=10)
    assert _act(tracer, "p") == 1


# --- Carriers -----------------------------------------------------------------------------------

_TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_TASK = "kernel_trace.op_name=swish,kernel_trace.task_id=1"


@pytest.mark.parametrize(
    "carrier",
    [
        pytest.param({}, id="empty"),
        pytest.param({"traceparent": _TRACEPARENT}, id="a trace, no task"),
        pytest.param({"traceparent": _TRACEPARENT, "baggage": "user=anna"}, id="other baggage"),
        pytest.param({"baggage": "kernel_trace.op_name=swish"}, id="half a task"),
        pytest.param({"baggage": _TASK.replace("kernel_trace", "KERNEL_TRACE")}, id="other names"),
        pytest.param({"baggage": f"x={'y' * 10_000},{_TASK}"}, id="huge"),
        pytest.param({"baggage": "," * 8000}, id="commas"),
        pytest.param({"baggage": "=;=,%;%%,\0"}, id="garbage"),
        pytest.param({"baggage": "kernel_trace.op_name=算,kernel_trace.task_id=1"}, id="no ASCII"),
        pytest.param({"x-baggage": _TASK, "HTTP_BAGGAGE": _TASK}, id="other fields"),
    ],
)
def test_a_carrier_without_a_task_is_told(carrier: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="no task came here"):
        KernelTracer.from_carrier(carrier)


def test_this_processs_own_environment_is_the_carrier_where_none_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for field in ("TRACEPARENT", "BAGGAGE"):
        monkeypatch.delenv(field, raising=False)
    with pytest.raises(ValueError, match="no task came here"):
        KernelTracer.from_carrier()
    monkeypatch.setenv("BAGGAGE", _TASK)
    assert KernelTracer.from_carrier().op_name == "swish"


@pytest.mark.parametrize("change", [str.upper, str.title, str.lower])
def test_fields_in_whatever_case(logs: Path, provider: TracerProvider, change: object) -> None:
    assert callable(change)
    carrier = {change("traceparent"): _TRACEPARENT, change("baggage"): f"{_TASK},kernel_trace.step=6"}
    assert _act(KernelTracer.from_carrier(carrier, provider), "p") == 7
    span = _actions(logs)["swish/I1_S07_swish_DO_CODER"]
    assert span.parent is not None
    assert span.parent.span_id == 0xB7AD6B7169203331


@pytest.mark.parametrize(
    "traceparent",
    ["", "garbage", "00-0-0-0", f"00-{'0' * 32}-{'0' * 16}-01", "ff" + _TRACEPARENT[2:], "x" * 100_000],
)
def test_a_task_without_a_usable_trace_goes_on_all_the_same(
    logs: Path, provider: TracerProvider, traceparent: str
) -> None:
    carrier = {"traceparent": traceparent, "baggage": _TASK}
    with KernelTracer.from_carrier(carrier, provider) as tracer:
        for number in (1, 2):
            assert _act(tracer, str(number)) == number
    assert _prompts(logs) == {"S01": "1", "S02": "2"}


@pytest.mark.parametrize(
    "step", ["", "-4", "x", "1.5", "%D9%A3", "0x10", "9" * 20, "999999999", "4;property=1", "1e9"]
)
def test_a_strange_step_is_no_harm(logs: Path, provider: TracerProvider, step: str) -> None:
    carrier = {"traceparent": _TRACEPARENT, "baggage": f"{_TASK},kernel_trace.step={step}"}
    with KernelTracer.from_carrier(carrier, provider) as tracer:
        _act(tracer, "1")
        _act(tracer, "2")
    assert [text for _, text in sorted(_prompts(logs).items())] == ["1", "2"]
    assert all(len(name) < 5 for name in _prompts(logs))


def test_names_of_any_bytes_are_safe(logs: Path, provider: TracerProvider) -> None:
    carrier = {
        "baggage": "kernel_trace.op_name=%FF..%2F..%2Fetc%00,kernel_trace.task_id=%252e%252e%252F%25ff"
    }
    with KernelTracer.from_carrier(carrier, provider) as tracer:
        _act(tracer, "p")
    assert len(_prompts(logs)) == 1
    assert {path.count("/") for path in tree(logs)} == {1}
    assert [entry.name for entry in logs.parent.iterdir()] == ["logs"]


def test_baggage_in_several_lines(provider: TracerProvider) -> None:
    """As a proxy may add one: https://www.w3.org/TR/baggage/#baggage-http-header-format"""
    headers = Message()
    for field, value in KernelTracer("swish", "1", provider).headers().items():
        headers[field] = value
    headers["Baggage"] = "proxy=1"
    assert KernelTracer.from_carrier(headers).op_name == "swish"  # type: ignore[arg-type]  # as of http.server


@pytest.mark.parametrize("steps", [-1, -5])
def test_less_than_no_steps_can_not_be_kept(provider: TracerProvider, steps: int) -> None:
    tracer = KernelTracer("swish", "1", provider)
    tracer.headers(steps=3)
    with pytest.raises(ValueError, match="steps"):
        tracer.headers(steps=steps)


def test_no_steps_may_be_kept(provider: TracerProvider) -> None:
    tracer = KernelTracer("swish", "1", provider)
    tracer.headers(steps=0)
    assert _act(tracer, "p") == 1


# --- What else goes along -----------------------------------------------------------------------


@contextmanager
def _baggage(**entries: str) -> Iterator[None]:
    """The program's own."""
    current = context.get_current()
    for key, value in entries.items():
        current = baggage.set_baggage(key, value, current)
    token = context.attach(current)
    try:
        yield
    finally:
        context.detach(token)


def test_the_programs_own_baggage_and_environment_go_along(
    provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_BUDGET", "3")
    tracer = KernelTracer("swish", "1", provider)
    with _baggage(user="anna, née b;c=1"):
        environment = tracer.environment()
    assert environment["KERNEL_BUDGET"] == "3"
    assert environment["PATH"] == os.environ["PATH"]
    assert "user=anna" in environment["BAGGAGE"]
    assert KernelTracer.from_carrier(environment, provider).op_name == "swish"
    assert "TRACEPARENT" not in os.environ
    assert not baggage.get_all()


def test_the_programs_own_baggage_goes_along_to_a_child_of_the_child(provider: TracerProvider) -> None:
    with _baggage(user="anna"):
        headers = KernelTracer("swish", "1", provider).headers()
    child = KernelTracer.from_carrier(headers, provider)
    with child.coder():
        assert "user=anna" in child.headers()["baggage"]


@pytest.mark.parametrize("entries", [2, 200])
def test_baggage_that_leaves_no_room_for_the_task_is_told_or_makes_room(
    provider: TracerProvider, entries: int
) -> None:
    if not hasattr(InstrumentationScope, "attributes"):
        pytest.skip("an SDK before 1.27")
    tracer = KernelTracer("swish", "1", provider)
    tracer.headers(steps=5)
    with _baggage(**{f"entry{number}": "x" * (8130 // entries - 10) for number in range(entries)}):
        try:
            headers = tracer.headers()
        except ValueError as error:
            assert "baggage" in str(error)  # noqa: PT017 - one of two good ends
        else:
            assert _act(KernelTracer.from_carrier(headers, provider), "p") == 6


def test_an_outer_trace_does_not_leak(provider: TracerProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    outer = {"TRACEPARENT": _TRACEPARENT, "TRACESTATE": "vendor=1", "traceparent": _TRACEPARENT}
    for field, value in outer.items():
        monkeypatch.setenv(field, value)
    monkeypatch.setenv("BAGGAGE", "kernel_trace.op_name=outer,kernel_trace.task_id=outer")
    environment = KernelTracer("swish", "1", provider).environment()
    assert set(environment) & {"traceparent", "tracestate", "baggage", "TRACESTATE"} == set()
    assert _TRACEPARENT[3:35] not in environment["TRACEPARENT"]
    assert "outer" not in environment["BAGGAGE"]


def test_an_outer_trace_does_not_leak_where_nothing_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", _TRACEPARENT)
    tracer = KernelTracer("swish", "1", trace_api.NoOpTracerProvider())
    environment = tracer.environment()
    assert "TRACEPARENT" not in environment
    assert KernelTracer.from_carrier(environment).op_name == "swish"


def test_trace_state_goes_along(provider: TracerProvider) -> None:
    carrier = {"traceparent": _TRACEPARENT, "tracestate": "vendor=1", "baggage": _TASK}
    tracer = KernelTracer.from_carrier(carrier, provider)
    assert tracer.headers()["tracestate"] == "vendor=1"


# --- Copies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_tracer_goes_on_with_the_task(provider: TracerProvider, protocol: int) -> None:
    tracer = KernelTracer("swish\n", "1", provider)
    _act(tracer, "p")
    pickled = pickle.loads(pickle.dumps(tracer, protocol))
    assert isinstance(pickled, KernelTracer)
    assert (pickled.op_name, pickled.task_id) == ("swish\n", "1")
    assert pickled.headers()["traceparent"] == tracer.headers()["traceparent"]
    assert "kernel_trace.step=2" in pickled.headers()["baggage"]
    assert _act(tracer, "p") == 4  # one is the pickled one's, one the headers'


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_a_copy_has_the_same_provider(logs: Path, provider: TracerProvider, how: object) -> None:
    assert callable(how)
    tracer = KernelTracer("swish", "1", provider)
    _act(tracer, "original")
    _act(how(tracer), "copy")
    assert _prompts(logs) == {"S01": "original", "S02": "copy"}


def test_judgements_in_the_child_are_of_its_own_actions(logs: Path, provider: TracerProvider) -> None:
    with KernelTracer("swish", "1", provider) as tracer:
        _act(tracer, "parent")
        arrived = KernelTracer.from_carrier(tracer.headers(), provider)
        with pytest.raises(ValueError, match="no action yet"), arrived.conductor():
            pass
        _act(arrived, "child")
        with arrived.conductor(prompt="good?") as verdict:
            pass
    assert verdict.step == 2
    assert tree(logs)["swish/conductor/I1_S02_swish_CheckCoder_prompt.txt"] == "good?"
