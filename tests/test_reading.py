"""The commands that read: what they say to people, to programs and to terminals."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from otel_kernel_trace import KernelTracer, Trace, configure
from tests.faults import forked
from tests.test_reader import run, without_index

click_testing = pytest.importorskip("click.testing")

_COMMAND = Path(sys.executable).with_name("otel-kernel-trace")
HOSTILE = "\u200b\U000e0041\x1b]0;title\x07\x1b[2J \u202egnp.exe \u2066 </script>\r"


def _run(*arguments: object, status: int = 0) -> str:
    """What a command says on stdout; on stderr where it fails."""
    from otel_kernel_trace.commands import command

    done = click_testing.CliRunner().invoke(command, list(map(str, arguments)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == status, done.stderr
    return str(done.stderr if status else done.stdout)


def _json(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_run(*arguments, "--json"))
    assert found["schema"].startswith("otel-kernel-trace.")
    return found


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    run(tmp_path / "tree")
    return tmp_path / "tree"


class TestLs:
    def test_a_task_in_a_line(self, log_dir: Path) -> None:
        run(log_dir, "gelu", "10")
        run(log_dir, "gelu", "9")
        head, *rows, last = _run("ls", log_dir).splitlines()
        assert re.sub(" +", " ", head) == "OP TASK OUTCOME STEPS SPEEDUP TOKENS WALL TIME NOW FIRST ERROR"
        assert [row.split()[:6] for row in rows] == [
            [op, task, "passed", "5", "1.5x", "120"]
            for op, task in (("gelu", "9"), ("gelu", "10"), ("swish", "1"))
        ]
        assert all(row.endswith("passed at step 5  error: no such block") for row in rows)
        assert last == "3 tasks, 3 passed"

    def test_of_one_op(self, log_dir: Path) -> None:
        run(log_dir, "gelu")
        assert [task["op_name"] for task in _json("ls", log_dir, "gelu")["tasks"]] == ["gelu"]
        assert "there is no op 'relu'; there are: gelu, swish" in _run("ls", log_dir, "relu", status=1)

    def test_what_it_cost(self, log_dir: Path, tmp_path: Path) -> None:
        prices = tmp_path / "prices.json"
        prices.write_text('{"a model": {"input": 10000, "output": 50000}}')
        said = _run("ls", log_dir, "--prices", prices)
        assert said.splitlines()[-1] == "cost 2, 2 for every kernel that passed"
        assert _json("ls", log_dir, "--prices", prices)["tasks"][0]["cost"] == 2.0
        prices.write_text("[]")
        assert "no table of models" in _run("ls", log_dir, "--prices", prices, status=1)

    def test_without_an_index(self, log_dir: Path) -> None:
        without_index(log_dir)
        assert _run("ls", log_dir).splitlines()[1].split()[:4] == ["swish", "1", "unknown", "4"]

    def test_a_folder_that_is_no_tree_is_one_sentence(self, tmp_path: Path) -> None:
        said = _run("ls", tmp_path, status=1)
        assert said.count("\n") == 1
        assert "expected the root of a tree" in said
        assert "does not exist" in _run("ls", tmp_path / "nope", status=2)


class TestShow:
    def test_the_story_of_a_task(self, log_dir: Path) -> None:
        said = _run("show", log_dir, "swish")
        head, times, *_ = said.splitlines()
        assert head == "swish · 1  passed  5 steps, best 1.5x, 100 tokens in, 20 out"
        time = r"\S+ (?:s|ms|µs)"
        named = ", ".join(
            f"{name} {time}" for name in ("model", "compile", "verify", "waiting", "unaccounted")
        )
        assert re.fullmatch(f"{time}: {named}", times)
        steps = re.findall(r"^step (\d)  ([A-Z_]+)", said, re.MULTILINE)
        assert [step for step, _ in steps] == ["1", "2", "3", "3", "4", "5"]
        assert "model call a model" in said
        assert "error: no such block" in said

    def test_a_step_whole(self, log_dir: Path) -> None:
        said = _run("show", log_dir, "swish", 1, 4)
        assert "BLOCK = 128" in said
        assert "mend it" in said
        assert "step 3" not in said

    def test_a_part_as_it_is_for_a_file(self, tmp_path: Path) -> None:
        text = f"{HOSTILE}\r\nend"
        Trace("o", "1", tmp_path).insert_verifier_record("False", text, "")
        arguments = ["show", str(tmp_path), "o", "1", "1", "--part", "error_log"]
        done = subprocess.run([_COMMAND, *arguments], capture_output=True, timeout=60, check=True)
        assert done.stdout == text.encode()

    def test_what_is_not_there_is_told_with_what_is(self, log_dir: Path) -> None:
        assert "there is no op 'x'; there are: swish" in _run("show", log_dir, "x", status=1)
        assert "no task '9'; there are: 1" in _run("show", log_dir, "swish", 9, status=1)
        assert "no step 7; its last is 5" in _run("show", log_dir, "swish", 1, 7, status=1)
        assert "no part 'x'; there are: error_log" in _run("show", log_dir, "swish", "--part", "x", status=1)
        run(log_dir, task_id="2")
        assert "has 2 tasks, say which: 1, 2" in _run("show", log_dir, "swish", status=1)

    def test_for_programs(self, log_dir: Path) -> None:
        task = _json("show", log_dir, "swish")["task"]
        assert [action["step"] for action in task["actions"]] == [1, 2, 3, 3, 4, 5]
        assert "text" not in task["actions"][0]["parts"]["prompt"]
        step = _json("show", log_dir, "swish", 1, 2)["task"]["actions"][0]
        assert step["parts"]["prompt"]["text"] == "write it"
        assert step["tokens"] == {"input": 100, "output": 20}


class TestDiff:
    def test_of_the_last_failed_and_the_first_good_one(self, log_dir: Path) -> None:
        before, after, *lines = _run("diff", log_dir, "swish").splitlines()
        assert before == "--- 1 step 2 DO_CODER (failed)"
        assert after == "+++ 1 step 4 FIX_CODER (passed, 1.5x)"
        assert lines[-2:] == ["-BLOCK = 64", "+BLOCK = 128"]

    def test_of_others(self, log_dir: Path) -> None:
        run(log_dir, task_id="2")
        assert "+BLOCK = 64" in _run("diff", log_dir, "swish", 1, 4, 2)
        assert "are the same" in _run("diff", log_dir, "swish", "1:2", "2:2")
        assert "+BLOCK = 128" in _run("diff", log_dir, "swish", "1:2", "2:4")
        assert "-write it" in _run("diff", log_dir, "swish", 1, "--part", "prompt")
        assert _json("diff", log_dir, "swish", "1:2", "2:4")["after"]["task_id"] == "2"

    def test_what_is_none_is_told(self, log_dir: Path) -> None:
        assert "step 3 of task '1' is no attempt; these are: 2, 4" in _run(
            "diff", log_dir, "swish", 1, 3, 4, status=1
        )
        assert "TASK:STEP" in _run("diff", log_dir, "swish", 1, 2, status=2)
        assert "has no part 'x'" in _run("diff", log_dir, "swish", "--part", "x", status=1)


def test_blame_says_which_step_brought_a_line(log_dir: Path) -> None:
    first, second = _run("blame", log_dir, "swish").splitlines()
    assert re.sub(" +", " ", first) == "1 step 2 DO_CODER (failed) 1 | import triton"
    assert re.sub(" +", " ", second) == "1 step 4 FIX_CODER (passed, 1.5x) 2 | BLOCK = 128"
    assert [line["step"] for line in _json("blame", log_dir, "swish")["lines"]] == [2, 4]


def test_compare_says_what_is_worse_and_what_that_rests_on(log_dir: Path, tmp_path: Path) -> None:
    later = tmp_path / "later"
    Trace("swish", "1", later).insert_verifier_record("False", "log", "")
    trace = Trace("swish", "2", later)
    trace.insert_verifier_record("False", "log", "")
    said = _run("compare", log_dir, later)
    assert "100 % -> 0 %" in said
    assert "worse: pass rate" in said
    [op] = _json("compare", log_dir, later)["ops"]
    assert (op["before"]["passed"], op["after"]["tasks"]) == (1, 2)


def test_what_has_not_ended_is_no_attempt_yet(log_dir: Path) -> None:
    provider = configure(log_dir, tracer_provider=TracerProvider(shutdown_on_exit=False))
    tracer = KernelTracer("gelu", "1", provider)
    for block in (1, 2):
        with tracer.coder() as code:
            code.record(f"BLOCK = {block}")
        with tracer.verifier() as check:
            check.record(False, "log")
    with tracer.coder(prompt="once more"):
        assert "+BLOCK = 2" in _run("diff", log_dir, "gelu")
        assert "BLOCK = 2" in _run("blame", log_dir, "gelu")


def test_json_is_what_every_reader_takes(tmp_path: Path) -> None:
    trace = Trace("half \udc80 a character", "1", tmp_path)
    trace.insert_verifier_record("True", "", '{"speedup": NaN, "time": 1e999}')
    said = _run("show", tmp_path, "half \udc80 a character", "--json")
    assert "NaN" not in said
    assert "Infinity" not in said
    told = json.loads(said)["task"]
    assert told["op_name"] == "half \ufffd a character"
    assert told["actions"][0]["profile"] == {"speedup": None, "time": None}


def test_a_closed_stdout_is_no_traceback(log_dir: Path) -> None:
    for arguments in (["ls"], ["show", "swish"], ["ls", "--json"]):
        line = f'"{_COMMAND}" {arguments[0]} "{log_dir}" {" ".join(arguments[1:])} >&-'
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in done.stderr


class TestRecover:
    def test_what_was_going_on_when_it_died(self, tmp_path: Path) -> None:
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        with forked() as child:
            if child.is_child:
                with KernelTracer("swish", "1", provider).coder(prompt="the prompt\nof it all"):
                    child.ends(True)
        time.sleep(0.1)
        said = _run("recover", tmp_path)
        assert said.startswith("1 action began and did not end.")
        assert "swish · 1  step 1  DO_CODER" in said
        assert "of it all" in said
        [action] = _json("recover", tmp_path)["actions"]
        assert action["parts"]["prompt"]["text"] == "the prompt\nof it all"
        assert action["pending"]

    def test_nothing_was(self, log_dir: Path) -> None:
        assert _run("recover", log_dir) == "Every action that began has ended.\n"


class TestTerminal:
    def _on_terminal(self, *arguments: object, **environment: str) -> bytes:
        """What a command writes to a real terminal."""
        leader, follower = pty.openpty()
        variables = {**os.environ, "TERM": "xterm", "PAGER": "cat", "COLUMNS": "100", **environment}
        with subprocess.Popen(
            [_COMMAND, *map(str, arguments)], stdin=follower, stdout=follower, stderr=follower, env=variables
        ) as process:
            os.close(follower)
            written = b""
            while True:
                try:
                    more = os.read(leader, 65536)
                except OSError:  # how a terminal ends
                    break
                if not more:
                    break
                written += more
        os.close(leader)
        assert process.returncode == 0
        return written

    def test_colours_are_for_terminals_alone(self, log_dir: Path) -> None:
        assert "\x1b" not in _run("ls", log_dir)
        assert b"\x1b[32mpassed" in self._on_terminal("ls", log_dir)
        assert b"\x1b" not in self._on_terminal("ls", log_dir, NO_COLOR="1")
        assert b"\x1b[" in self._on_terminal("show", log_dir, "swish", 1, 4)

    def test_what_a_trace_holds_is_never_obeyed(self, tmp_path: Path) -> None:
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        with KernelTracer(HOSTILE, HOSTILE, provider) as tracer:
            with tracer.coder(prompt=HOSTILE) as action:
                action.record(HOSTILE, HOSTILE, **{HOSTILE: HOSTILE})
            with tracer.verifier() as check:
                check.record(False, HOSTILE, {HOSTILE: HOSTILE})
        for arguments in (["ls", tmp_path], ["show", tmp_path, HOSTILE], ["blame", tmp_path, HOSTILE]):
            written = self._on_terminal(*arguments, NO_COLOR="1")
            assert b"\x1b" not in written
            assert b"\x07" not in written
            assert "\u202e".encode() not in written
            assert b"\\x1b" in written
        for arguments in (["show", tmp_path, HOSTILE, "\x1b[2J"], ["ls", tmp_path, HOSTILE + "x"]):
            assert "\x1b" not in _run(*arguments, status=1)

    def test_a_line_of_100_mb_is_shortened(self, tmp_path: Path) -> None:
        Trace("o", "1", tmp_path).insert_verifier_record("False", "x" * 100_000_000, "")
        assert len(_run("show", tmp_path, "o")) < 10_000
        assert len(_run("ls", tmp_path)) < 10_000
        assert len(_run("show", tmp_path, "o", 1, 1)) < 10_000


def test_the_first_lines_of_help_have_an_example() -> None:
    for name in ("ls", "show", "diff", "blame", "compare", "recover"):
        assert f"otel-kernel-trace {name} ./" in _run(name, "--help")


def test_an_interrupt_is_status_130_and_no_traceback(tmp_path: Path) -> None:
    run(tmp_path)
    [shard] = (tmp_path / ".kernel_trace/index").glob("*.jsonl")
    content = shard.read_bytes()
    with shard.open("ab") as file:
        for _ in range(3000):
            file.write(content)
    with subprocess.Popen([_COMMAND, "ls", str(tmp_path)], stderr=subprocess.PIPE, text=True) as process:
        while not _has_open(process.pid, shard):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert "Traceback" not in told
    assert process.returncode == 130


def _has_open(pid: int, file: Path) -> bool:
    folder = Path(f"/proc/{pid}/fd")
    with contextlib.suppress(OSError):
        return any(os.readlink(folder / name) == str(file) for name in os.listdir(folder))
    return False
