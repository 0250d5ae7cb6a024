"""The command: what it says, where it says it, and with which status it ends."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from otel_kernel_trace import ActionType, Trace
from otel_kernel_trace.otlp import spans_in
from otel_kernel_trace.version import __version__
from tests.faults import small_disk
from tests.tree import raw_tree, tree

click_testing = pytest.importorskip("click.testing")

_COMMAND = Path(sys.executable).with_name("otel-kernel-trace")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A tree of two actions."""
    trace = Trace("swish", "1", tmp_path / "tree")
    trace.insert_designer_or_coder_record("r", "p", "t", ActionType.DO_CODER)
    trace.insert_verifier_record("False", "log", "")
    return tmp_path / "tree"


@pytest.fixture
def lines(log_dir: Path, tmp_path: Path) -> Path:
    """Its export."""
    path = tmp_path / "lines.jsonl"
    _run("export", log_dir, "--jsonl", "-o", path)
    return path


class _Done:
    """How a call ended, and what it said."""

    def __init__(self, status: int, out: bytes, told: str) -> None:
        self.status = status
        self.out = out
        self.told = told

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Done) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"{self.status}: {self.out[:80]!r}: {self.told}"


def _run(*arguments: object, stdin: bytes | None = None) -> _Done:
    """Run the command in this process."""
    from otel_kernel_trace.commands import command

    done = click_testing.CliRunner().invoke(command, list(map(str, arguments)), input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return _Done(done.exit_code, done.stdout_bytes, done.stderr)


def _run_in_shell(line: str, *, cwd: Path, **environment: str) -> _Done:
    """Run the command as a user does, with its own name as ``$it``."""
    environment = {**os.environ, "it": str(_COMMAND), **environment}
    done = subprocess.run(
        ["bash", "-c", line], cwd=cwd, env=environment, capture_output=True, timeout=60, check=False
    )
    return _Done(done.returncode, done.stdout, done.stderr.decode())


def _spans(lines: bytes) -> list[ReadableSpan]:
    found = [span for line in lines.splitlines() for span in spans_in(json.loads(line))]
    return [span for span in found if span is not None]


class TestExport:
    def test_lines_on_stdout_and_nothing_else_there(self, log_dir: Path) -> None:
        done = _run("export", log_dir, "--jsonl")
        assert [span.name for span in _spans(done.out)] == ["DO_CODER", "VERIFY"]
        assert (done.status, done.told) == (0, "2 spans\n")

    def test_or_in_a_file_with_the_rights_that_files_have(self, log_dir: Path, tmp_path: Path) -> None:
        path = tmp_path / "lines.jsonl"
        before = os.umask(0o027)
        try:
            done = _run("export", log_dir, "--jsonl", "--output", path)
        finally:
            os.umask(before)
        assert done == _Done(0, b"", "2 spans\n")
        assert path.read_bytes() == _run("export", log_dir, "--jsonl").out
        assert path.stat().st_mode & 0o777 == 0o640

    def test_or_in_one_that_is_there_which_keeps_its_rights(self, log_dir: Path, tmp_path: Path) -> None:
        path = tmp_path / "lines.jsonl"
        path.write_text("of before")
        path.chmod(0o600)
        _run("export", log_dir, "--jsonl", "--output", path)
        assert path.read_bytes() == _run("export", log_dir, "--jsonl").out
        assert path.stat().st_mode & 0o777 == 0o600

    def test_a_folder_that_is_not_there_is_told(self, log_dir: Path, tmp_path: Path) -> None:
        done = _run("export", log_dir, "--jsonl", "-o", tmp_path / "nope" / "lines.jsonl")
        assert done.status == 1
        assert f"no folder {tmp_path / 'nope'}" in done.told

    @pytest.mark.parametrize(
        "options",
        ["", "--jsonl --perfetto", "--jsonl --otlp http://h", "--perfetto --otlp http://h", "-o file"],
    )
    def test_in_which_format_has_to_be_said(self, log_dir: Path, options: str) -> None:
        done = _run("export", log_dir, *options.split())
        assert (done.status, done.out) == (2, b"")
        assert done.told.endswith("Error: say one of --jsonl, --perfetto, --ecs and --otlp ENDPOINT\n")

    @pytest.mark.parametrize(
        "options",
        ["--header a=b", "--whole", "--pending", "--again", "--preview-chars 5"],
    )
    @pytest.mark.parametrize("form", ["--jsonl", "--perfetto"])
    def test_options_of_sending_are_of_no_file(self, log_dir: Path, form: str, options: str) -> None:
        done = _run("export", log_dir, form, *options.split())
        assert (done.status, done.out) == (2, b"")
        assert done.told.endswith("are of --otlp\n")

    @pytest.mark.parametrize(
        "options",
        [
            "-o file",
            "--whole --preview-chars 5",
            "--preview-chars -1",
            "--header secret",
            "--header a=b\nsecret",
        ],
    )
    def test_nor_are_those_of_files_of_sending(self, log_dir: Path, options: str) -> None:
        done = _run("export", log_dir, "--otlp", "http://127.0.0.1:1", *options.split(" "))
        assert (done.status, done.out) == (2, b"")
        assert "secret" not in done.told
        assert _run("export", log_dir, "--otlp", "127.0.0.1:1").status == 2

    def test_help_has_examples_of_each(self) -> None:
        done = _run("export", "--help")
        assert done.status == 0
        lines = [line.strip() for line in done.out.decode().splitlines()]
        for form in ("--jsonl -o trace.jsonl", "--perfetto -o timeline.json", "--otlp http://localhost:4318"):
            assert f"otel-kernel-trace export ./kernel_trace_logs {form}" in lines

    def test_a_timeline_on_stdout_or_in_a_file(self, log_dir: Path, tmp_path: Path) -> None:
        done = _run("export", log_dir, "--perfetto")
        assert (done.status, done.told) == (0, "2 actions and 0 model calls of 1 tasks\n")
        assert [event["name"] for event in json.loads(done.out)["traceEvents"] if event["ph"] == "X"] == [
            "task",
            "DO_CODER",
            "VERIFY",
        ]
        path = tmp_path / "timeline.json"
        assert _run("export", log_dir, "--perfetto", "-o", path).out == b""
        assert path.read_bytes() == done.out

    def test_a_timeline_of_what_has_no_time_leaves_the_one_of_before(
        self, log_dir: Path, tmp_path: Path
    ) -> None:
        shutil.rmtree(log_dir / ".kernel_trace")
        (tmp_path / "out").mkdir()
        (tmp_path / "out/timeline.json").write_text("of before")
        for target in (tmp_path / "out/timeline.json", "-"):
            done = _run("export", log_dir, "--perfetto", "-o", target)
            assert (done.status, done.out) == (1, b"")
            assert done.told.startswith("Error: nothing in ")
            assert done.told.endswith("names of files tell none\n")
        assert raw_tree(tmp_path / "out") == {"timeline.json": b"of before"}
        (tmp_path / "empty").mkdir()
        done = _run("export", tmp_path / "empty", "--perfetto")
        assert (done.status, done.out) == (1, b"")
        assert done.told.startswith("Error: there is no record in ")

    def test_a_backend_that_is_not_there_is_one_sentence(
        self, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
        line = '"$it" export tree --otlp http://127.0.0.1:1'
        done = _run_in_shell(line, cwd=tmp_path)
        assert (done.status, done.out) == (1, b"")
        assert done.told == "Error: http://127.0.0.1:1/v1/traces can't be reached: connection refused\n"

    def test_a_tree_that_is_none_is_not_sent(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        (tmp_path / "empty").mkdir()
        done = _run("export", tmp_path / "empty", "--otlp", "http://127.0.0.1:1")
        assert done.status == 1
        assert done.told.startswith("Error: there is no record in ")

    @pytest.mark.parametrize("form", ["--jsonl", "--perfetto"])
    def test_a_terminal_sees_how_far_it_is(self, log_dir: Path, tmp_path: Path, form: str) -> None:
        pty = pytest.importorskip("pty")
        ours, theirs = pty.openpty()
        arguments: list[str | Path] = [_COMMAND, "export", log_dir, form, "-o", tmp_path / "file"]
        subprocess.run(arguments, stderr=theirs, stdout=subprocess.DEVNULL, timeout=60, check=True)
        told = os.read(ours, 65536).decode()
        os.close(ours)
        os.close(theirs)
        assert "Writing  [" in told
        assert "100%" in told

    def test_what_is_passed_over_is_told(self, log_dir: Path) -> None:
        (log_dir / "swish/I1_S01_swish_DO_CODER_prompt.txt").unlink()
        (log_dir / "swish/I1_S02_swish_VERIFY_error_log.txt").write_text("edited")
        [shard] = (log_dir / ".kernel_trace/index").iterdir()
        with shard.open("ab") as file:
            file.write(b"no JSON\n" + b'{"cut')
        done = _run("export", log_dir, "--jsonl")
        assert done.status == 0
        assert done.told == (
            "2 spans; 1 cut last lines passed over; 1 unreadable lines passed over; 1 texts missing; "
            "1 texts changed since they were written\n"
        )

    @pytest.mark.parametrize("folder", [".", "tree/swish", "tree/.kernel_trace", "empty"])
    def test_a_folder_that_is_no_tree_is_one_sentence(
        self, log_dir: Path, tmp_path: Path, folder: str
    ) -> None:
        (tmp_path / "empty").mkdir()
        done = _run("export", tmp_path / folder, "--jsonl")
        assert (done.status, done.out) == (1, b"")
        error = f"Error: there is no record in {tmp_path / folder}: is it the root of a tree?"
        assert done.told.splitlines()[-1] == error

    @pytest.mark.parametrize("folder", ["none", "lines.jsonl"])
    def test_so_is_one_that_is_none(self, lines: Path, tmp_path: Path, folder: str) -> None:
        done = _run("export", tmp_path / folder, "--jsonl")
        assert (done.status, done.out) == (2, b"")
        assert len(done.told.splitlines()[-1]) < 200
        assert folder in done.told

    @pytest.mark.parametrize("path", ["none/lines.jsonl", "tree"])
    def test_a_place_where_no_file_can_be(self, log_dir: Path, tmp_path: Path, path: str) -> None:
        done = _run("export", log_dir, "--jsonl", "-o", tmp_path / path)
        assert done.status in (1, 2)
        assert "Error: " in done.told
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["tree"]

    def test_an_output_that_fails_leaves_the_one_of_before(self, log_dir: Path, tmp_path: Path) -> None:
        trace = Trace("swish", "1", log_dir)
        trace.insert_designer_or_coder_record("r" * 200_000, "p", "t", ActionType.DO_CODER)
        with small_disk(tmp_path / "disk", "64k") as disk:
            (disk / "lines.jsonl").write_text("of before")
            done = _run("export", log_dir, "--jsonl", "-o", disk / "lines.jsonl")
            assert done.status == 1
            assert done.told.startswith("Error: ")
            assert "No space left" in done.told
            assert raw_tree(disk) == {"lines.jsonl": b"of before"}

    def test_so_does_one_that_is_interrupted(self, log_dir: Path, tmp_path: Path) -> None:
        [shard] = (log_dir / ".kernel_trace/index").iterdir()
        shard.write_bytes(shard.read_bytes() * 20_000)  # so that it takes a while
        output = tmp_path / "out" / "lines.jsonl"
        output.parent.mkdir()
        output.write_text("of before")
        arguments: list[str | Path] = [_COMMAND, "export", log_dir, "--jsonl", "-o", output]
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE)
        while process.poll() is None:
            if any(path != output and path.stat().st_size for path in output.parent.iterdir()):
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert (process.returncode, told.strip()) == (130, b"interrupted")
        assert raw_tree(output.parent) == {"lines.jsonl": b"of before"}

    def test_so_does_one_of_a_folder_that_is_no_tree(self, tmp_path: Path) -> None:
        output, empty = tmp_path / "lines.jsonl", tmp_path / "empty"
        output.write_text("of before")
        empty.mkdir()
        assert _run("export", empty, "--jsonl", "-o", output).status == 1
        assert output.read_text() == "of before"

    @pytest.mark.parametrize(
        "name",
        [
            pytest.param("x" * 255, id="ASCII"),
            pytest.param(
                "矩" * 80 + ".jsonl",
                id="Chinese",
            ),
        ],
    )
    def test_any_name_that_a_file_may_have_will_do(self, log_dir: Path, tmp_path: Path, name: str) -> None:
        assert _run("export", log_dir, "--jsonl", "-o", tmp_path / name).status == 0
        assert len(_spans((tmp_path / name).read_bytes())) == 2

    @pytest.mark.parametrize("kind", ["fifo", "link"])
    def test_an_output_that_is_no_file_stays_what_it_is(
        self, log_dir: Path, tmp_path: Path, kind: str
    ) -> None:
        path, read = tmp_path / "output", tmp_path / "read"
        if kind == "fifo":
            os.mkfifo(path)
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
            reader = threading.Thread(target=lambda: read.write_bytes(path.read_bytes()), daemon=True)
            reader.start()
        else:
            read.write_text("of before")
            path.symlink_to(read)
        done = _run("export", log_dir, "--jsonl", "-o", path)
        assert done.status == 0
        assert path.is_fifo() if kind == "fifo" else path.is_symlink()
        if kind == "fifo":
            reader.join(10)
        assert len(_spans(read.read_bytes())) == 2

    def test_a_dash_is_stdout(self, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        done = _run("export", log_dir, "--jsonl", "-o", "-")
        assert len(_spans(done.out)) == 2
        assert not Path("-").exists()


class TestImport:
    def test_a_tree_is_there_again(self, log_dir: Path, lines: Path, tmp_path: Path) -> None:
        done = _run("import", lines, "--log-dir", tmp_path / "copy")
        told = f"2 actions and 0 other spans written to {tmp_path / 'copy'}\n"
        assert done == _Done(0, b"", told)
        assert raw_tree(tmp_path / "copy") == raw_tree(log_dir)

    def test_and_again_it_says_that_it_was_there(self, lines: Path, tmp_path: Path) -> None:
        for _ in range(2):
            done = _run("import", lines, "--log-dir", tmp_path / "copy")
        assert done.status == 0
        assert done.told.endswith("; 2 were there already\n")

    @pytest.mark.parametrize("layout", ["aikg", "akg_agents"])
    def test_the_layout_is_that_of_what_is_added(self, tmp_path: Path, layout: str) -> None:
        trace = Trace("swish", "1", tmp_path / "tree", layout=layout)
        trace.insert_designer_or_coder_record("r", "p", "t", ActionType.DO_CODER)
        _run("export", tmp_path / "tree", "--jsonl", "-o", tmp_path / "lines")
        _run("import", tmp_path / "lines", "--log-dir", tmp_path / "copy")
        _run("merge", tmp_path / "tree", "--log-dir", tmp_path / "merged")
        assert raw_tree(tmp_path / "copy") == raw_tree(tmp_path / "merged") == raw_tree(tmp_path / "tree")

    def test_or_that_which_the_tree_has_or_that_which_is_asked_for(self, lines: Path, tmp_path: Path) -> None:
        trace = Trace("other", "1", tmp_path / "there", layout="aikg")
        trace.insert_verifier_record("False", "theirs", "")
        _run("import", lines, "--log-dir", tmp_path / "there")
        assert "swish/I1_S01_swish_DoCoder_prompt.txt" in tree(tmp_path / "there")
        _run("import", lines, "--log-dir", tmp_path / "asked", "--layout", "akg_agents")
        assert "swish/Iteration1_Step01_swish_coder_prompt.txt" in tree(tmp_path / "asked")

    def test_a_dash_is_stdin(self, log_dir: Path, lines: Path, tmp_path: Path) -> None:
        done = _run("import", "-", "--log-dir", tmp_path / "copy", stdin=lines.read_bytes())
        assert done.status == 0
        assert raw_tree(tmp_path / "copy") == raw_tree(log_dir)

    def test_spans_of_other_things_are_told(self, lines: Path, tmp_path: Path) -> None:
        other = {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "GET /"}]}]}]}
        content = lines.read_bytes() + json.dumps(other).encode() + b"\nno JSON\n"
        done = _run("import", "-", "--log-dir", tmp_path / "copy", stdin=content)
        assert done.status == 0
        assert done.told.endswith("; 1 spans are of other things; 1 unreadable lines passed over\n")

    @pytest.mark.parametrize("content", [b"", b"no JSON", b'{"resourceSpans":[]}', b'{"resourceLogs":[{}]}'])
    def test_a_file_in_which_there_is_no_action_is_one_sentence(self, tmp_path: Path, content: bytes) -> None:
        done = _run("import", "-", "--log-dir", tmp_path / "copy", stdin=content)
        assert (done.status, done.out) == (1, b"")
        assert done.told.splitlines()[-1] == (
            "Error: there is no action in it: no span has kernel_trace attributes"
        )
        assert not (tmp_path / "copy").exists()

    @pytest.mark.parametrize("file", ["none", "tree"])
    def test_a_file_that_is_none(self, log_dir: Path, tmp_path: Path, file: str) -> None:
        done = _run("import", tmp_path / file, "--log-dir", tmp_path / "copy")
        assert (done.status, done.out) == (2, b"")
        assert "Error: Invalid value for 'FILE'" in done.told

    def test_a_tree_that_can_not_be(self, lines: Path, tmp_path: Path) -> None:
        assert _run("import", "-").status == 2
        assert _run("import", "-", "--log-dir", lines).status == 2
        done = _run("import", lines, "--log-dir", lines / "below")
        assert done.status == 1
        assert done.told.splitlines()[-1].startswith("Error: ")
        assert lines.is_file()

    def test_actions_that_could_not_be_written_are_told(self, lines: Path, tmp_path: Path) -> None:
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy/swish").write_text("in the way")
        done = _run("import", lines, "--log-dir", tmp_path / "copy")
        assert done.status == 1
        assert done.told.splitlines()[-1] == "Error: 2 actions could not be written"

    def test_nothing_is_overwritten_whatever_the_environment_says(
        self, lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trace = Trace("swish", "1", tmp_path / "there")
        trace.insert_designer_or_coder_record("theirs", "theirs", "theirs", ActionType.DO_CODER)
        before = raw_tree(tmp_path / "there")
        monkeypatch.setenv("OTEL_EXPORTER_KERNEL_TRACE_ON_EXISTING", "overwrite")
        _run("import", lines, "--log-dir", tmp_path / "there")
        after = raw_tree(tmp_path / "there")
        assert {path: after[path] for path in before} == before


class TestMerge:
    def test_several_trees_become_one(self, tmp_path: Path) -> None:
        for number in range(3):
            trace = Trace("swish", str(number), tmp_path / str(number))
            trace.insert_verifier_record("False", f"log {number}", "")
        sources = [tmp_path / str(number) for number in range(3)]
        done = _run("merge", *sources, "--log-dir", tmp_path / "all")
        assert done == _Done(0, b"", f"3 actions and 0 other spans written to {tmp_path / 'all'}\n")
        assert sorted(tree(tmp_path / "all").values()) == ["log 0", "log 1", "log 2"]
        assert _run("merge", *sources, "--log-dir", tmp_path / "all").told.endswith(
            "; 3 were there already\n"
        )

    def test_a_tree_is_not_added_to_itself(self, log_dir: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(log_dir)
        before = raw_tree(log_dir)
        for source in (log_dir, tmp_path / "link"):
            done = _run("merge", source, "--log-dir", log_dir)
            assert done.status == 2
            assert done.told.endswith("is the tree that is to be added to\n")
        assert raw_tree(log_dir) == before

    def test_trees_have_to_be_named(self, tmp_path: Path) -> None:
        assert _run("merge", "--log-dir", tmp_path / "all").status == 2
        assert _run("merge", tmp_path / "none", "--log-dir", tmp_path / "all").status == 2

    def test_a_folder_that_is_no_tree_is_told(self, log_dir: Path, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        done = _run("merge", log_dir, tmp_path / "empty", "--log-dir", tmp_path / "all")
        assert "empty" in done.told

    def test_actions_that_could_not_be_written_are_told(self, log_dir: Path, tmp_path: Path) -> None:
        (tmp_path / "all").mkdir()
        (tmp_path / "all/swish").write_text("in the way")
        done = _run("merge", log_dir, "--log-dir", tmp_path / "all")
        assert done.status == 1
        assert done.told.splitlines()[-1] == "Error: 2 actions could not be written"


class TestInAShell:
    def test_export_and_import_in_a_pipe(self, log_dir: Path, tmp_path: Path) -> None:
        line = 'set -o pipefail; "$it" export tree --jsonl | "$it" import - --log-dir copy'
        done = _run_in_shell(line, cwd=tmp_path)
        assert (done.status, done.out) == (0, b"")
        assert sorted(done.told.splitlines()) == ["2 actions and 0 other spans written to copy", "2 spans"]
        assert raw_tree(tmp_path / "copy") == raw_tree(log_dir)

    def test_a_file_that_another_program_writes_meanwhile(self, lines: Path, tmp_path: Path) -> None:
        line = f'"$it" import <(cat {shlex.quote(str(lines))}) --log-dir copy'
        done = _run_in_shell(line, cwd=tmp_path)
        assert (done.status, done.told) == (0, "2 actions and 0 other spans written to copy\n")

    def test_nobody_is_told_that_the_reader_of_a_pipe_has_gone(self, log_dir: Path, tmp_path: Path) -> None:
        trace = Trace("swish", "1", log_dir)
        trace.insert_designer_or_coder_record("r" * 1_000_000, "p", "t", ActionType.DO_CODER)
        line = '"$it" export tree --jsonl | head -c 10; echo " ${PIPESTATUS[0]}"'
        done = _run_in_shell(line, cwd=tmp_path)
        assert done.out == b'{"resource 1\n'
        assert done.told == ""

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no disk that is always full")
    def test_a_full_disk_is_one_sentence(self, log_dir: Path, tmp_path: Path) -> None:
        done = _run_in_shell('"$it" export tree --jsonl > /dev/full', cwd=tmp_path)
        assert (done.status, done.told) == (1, "Error: [Errno 28] No space left on device\n")

    def test_so_is_a_stdout_that_is_closed(self, log_dir: Path, tmp_path: Path) -> None:
        done = _run_in_shell('"$it" export tree --jsonl >&-', cwd=tmp_path)
        assert done.status == 1
        assert "Traceback" not in done.told

    def test_names_in_any_script_and_any_locale(self, tmp_path: Path) -> None:
        trace = Trace("矩阵", "1", tmp_path / "é矩")
        trace.insert_verifier_record("False", "log", "")
        line = '"$it" export é矩 --jsonl | "$it" import - --log-dir 矩é'
        done = _run_in_shell(line, cwd=tmp_path, LC_ALL="C")
        assert done.status == 0
        assert "Traceback" not in done.told
        assert raw_tree(tmp_path / "矩é") == raw_tree(tmp_path / "é矩")

    def test_help_and_version_are_on_stdout(self, tmp_path: Path) -> None:
        done = _run_in_shell('"$it" --version && "$it" -h && "$it" import --help', cwd=tmp_path)
        assert (done.status, done.told) == (0, "")
        assert done.out.decode().splitlines()[0] == f"otel-kernel-trace, version {__version__}"
        for word in (b"export", b"import", b"merge", b"--log-dir", b"--texts"):
            assert word in done.out

    @pytest.mark.parametrize(
        "line", ["", "nonsense", "export", "export tree --jsonl more", "import - --layout x"]
    )
    def test_wrong_use_is_status_2_and_nothing_on_stdout(self, log_dir: Path, line: str) -> None:
        done = _run(*line.split())
        assert (done.status, done.out) == (2, b"")
        assert done.told.startswith("Usage: ")

    def test_without_its_extra_it_says_so_in_one_line(self, tmp_path: Path) -> None:
        script = "import sys; sys.modules['click'] = None; from otel_kernel_trace.cli import main; main()"
        done = subprocess.run([sys.executable, "-c", script, "--help"], capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr == b"otel-kernel-trace needs its extra: pip install 'otel-kernel-trace[cli]'\n"

    def test_another_module_that_is_missing_is_no_matter_of_the_extra(self) -> None:
        script = (
            "import sys; sys.modules['otel_kernel_trace.transfer'] = None; "
            "from otel_kernel_trace.cli import main; main()"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert b"ModuleNotFoundError" in done.stderr
        assert b"needs its extra" not in done.stderr
