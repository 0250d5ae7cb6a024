"""Commands, from their start to the end of all that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from otel_kernel_trace.stages.execution import MAX_KEPT, run_command


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _is_gone(pid: int) -> bool:
    until = time.monotonic() + 5
    while _is_alive(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _children() -> set[str]:
    """Of this process, those that other tests need too."""
    lists = Path("/proc/self/task").glob("*/children")
    return {pid for one in lists for pid in one.read_text().split()}


def test_both_outputs_the_exit_status_and_the_figures_are_told() -> None:
    others = _children()
    ended = run_command(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (ended.stdout.content, ended.stderr.content, ended.returncode) == (b"out\n", b"err\n", 3)
    assert ended.stdout.cut == 0
    assert not ended.is_timed_out
    assert ended.duration > 0
    assert ended.cpu_time is not None
    assert _children() <= others


def test_a_signal_is_a_negative_number() -> None:
    assert run_command(["sh", "-c", "kill -SEGV $$"]).returncode == -signal.SIGSEGV


def test_input_is_read_as_far_as_the_command_wants_it() -> None:
    large = b"x" * 3_000_000
    assert run_command(["cat"], content=large).stdout.content == large
    assert run_command(["head", "-c", "5"], content=large).stdout.content == b"xxxxx"
    assert run_command(["true"], content=large).returncode == 0
    assert run_command(["cat"]).stdout.content == b""


def test_processor_time_is_that_of_the_command_and_its_children() -> None:
    burn = "import time\nwhile time.process_time() < 0.1: pass"
    ended = run_command(["sh", "-c", f'"$0" -c "{burn}"; true', sys.executable])
    assert ended.cpu_time is not None
    assert ended.cpu_time >= 0.1


def test_peak_memory_is_the_commands_own() -> None:
    program = "import time\nx = b'x' * {size}\ntime.sleep(0.3)"
    kept = b"x" * 300_000_000  # more than the small one has, and in this process's figure
    small, large = (
        run_command([sys.executable, "-c", program.format(size=size)]).peak_memory
        for size in (50_000_000, 2 * len(kept))
    )
    assert small is not None
    assert large is not None
    assert 50_000_000 < small < len(kept)
    assert 2 * len(kept) < large < 3 * len(kept)


def test_peak_memory_is_that_of_the_largest_of_its_processes() -> None:
    program = "import time\nx = b'x' * 60_000_000\ntime.sleep(0.3)"
    peak = run_command(["sh", "-c", '"$0" -c "$1"; true', sys.executable, program]).peak_memory
    assert peak is not None
    assert peak > 60_000_000


def test_a_timeout_kills_all_that_was_started(tmp_path: Path) -> None:
    began, others = time.monotonic(), _children()
    pids = tmp_path / "pids"
    script = f"sleep 100 & echo $! > {pids}; echo $$ >> {pids}; echo begun; wait"
    ended = run_command(["sh", "-c", script], timeout=0.5)
    assert ended.is_timed_out
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.content == b"begun\n"
    assert time.monotonic() - began < 50
    assert all(_is_gone(int(pid)) for pid in pids.read_text().split())
    assert _children() <= others


def test_a_timeout_ends_the_reading_of_a_pipe_that_a_daemon_holds(tmp_path: Path) -> None:
    began = time.monotonic()
    pid = tmp_path / "pid"
    daemon = f"import os, time; os.setsid(); open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(100)"
    script = f'"$0" -c "{daemon}" & while ! [ -s {pid} ]; do sleep 0.01; done; echo begun; sleep 100'
    ended = run_command(["sh", "-c", script, sys.executable], timeout=3)
    assert time.monotonic() - began < 50
    assert ended.is_timed_out
    assert ended.stdout.content == b"begun\n"
    os.kill(int(pid.read_text()), signal.SIGKILL)


def test_what_a_command_leaves_behind_may_finish_writing_and_is_killed_then(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"(sleep 0.2; echo late) & sleep 100 & echo $! > {pid}; echo early"
    ended = run_command(["sh", "-c", script])
    assert ended.returncode == 0
    assert ended.stdout.content == b"early\nlate\n"
    assert _is_gone(int(pid.read_text()))


def test_of_an_endless_output_both_ends_are_kept() -> None:
    ended = run_command(["sh", "-c", "echo first; head -c 100000000 /dev/zero; echo last"])
    content = ended.stdout.content
    assert content.startswith(b"first\n\0")
    assert content.endswith(b"\0last\n")
    assert MAX_KEPT * 0.99 < len(content) < MAX_KEPT * 1.01
    assert b"bytes are cut here" in content
    mark = len(content) - (6 + 100_000_000 + 5 - ended.stdout.cut)
    assert 0 < mark < 100
    assert not ended.stderr.content


def test_an_output_that_fits_is_whole() -> None:
    ended = run_command(["head", "-c", str(MAX_KEPT // 2 + 1000), "/dev/zero"])
    assert len(ended.stdout.content) == MAX_KEPT // 2 + 1000
    assert ended.stdout.cut == 0


def test_closed_outputs_do_not_end_the_wait() -> None:
    ended = run_command(["sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 7"])
    assert ended.returncode == 7


def test_it_works_where_the_program_has_no_standard_streams() -> None:
    program = """
import os, sys
from otel_kernel_trace.stages.execution import run_command
report = os.dup(1)
for fd in (0, 1, 2):
    os.close(fd)
ended = run_command(["sh", "-c", "cat; echo out; echo err >&2"])
os.write(report, repr((ended.stdout.content, ended.stderr.content, ended.returncode)).encode())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.stdout.decode() == "(b'out\\n', b'err\\n', 0)"


def test_where_the_program_ignores_its_children_the_exit_status_is_not_made_up() -> None:
    program = """
import signal
from otel_kernel_trace.stages.execution import run_command
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
ended = run_command(["sh", "-c", "echo out; exit 3"])
print(ended.stdout.content, ended.returncode, ended.cpu_time)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "b'out\\n' None None\n"


def test_ctrl_c_kills_the_command_and_passes_on(tmp_path: Path) -> None:
    pid, others = tmp_path / "pid", _children()
    threading.Thread(target=_interrupt_when_there, args=(pid,)).start()
    with pytest.raises(KeyboardInterrupt):
        run_command(["sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 100"])
    assert not _is_alive(int(pid.read_text()))
    assert _children() <= others


def _interrupt_when_there(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def test_no_file_is_left_open() -> None:
    run_command(["true"])
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        run_command(["cat"], content=b"x")
        with pytest.raises(FileNotFoundError):
            run_command(["no-such-program"])
    assert len(os.listdir("/proc/self/fd")) == len(before)
