"""What a task is made with: found out without running anything, never failing the pipeline."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_kernel_trace import KernelTracer
from otel_kernel_trace.environment import environment
from otel_kernel_trace.fingerprint.probing import probe
from otel_kernel_trace.record import attributes_of
from otel_kernel_trace.revision import commit_at

COMMIT = "0123456789abcdef0123456789abcdef01234567"
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def repository(folder: Path, **files: str) -> Path:
    """A .git folder with these files; ``__`` in a name is ``/``, ``_`` is ``-``."""
    (folder / ".git").mkdir(parents=True)
    for name, content in files.items():
        path = folder / ".git" / name.replace("__", "/").replace("_", "-")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class TestCommit:
    def test_of_a_branch(self, tmp_path: Path) -> None:
        folder = repository(tmp_path, HEAD="ref: refs/heads/main\n", refs__heads__main=f"{COMMIT}\n")
        assert commit_at(str(folder)) == COMMIT

    def test_of_no_branch(self, tmp_path: Path) -> None:
        assert commit_at(str(repository(tmp_path, HEAD=f"{COMMIT}\n"))) == COMMIT

    def test_with_sha256(self, tmp_path: Path) -> None:
        assert commit_at(str(repository(tmp_path, HEAD="ab" * 32))) == "ab" * 32

    def test_of_a_packed_branch_of_which_another_is_the_beginning(self, tmp_path: Path) -> None:
        packed = (
            f"# pack-refs with: peeled\n{'f' * 40} refs/heads/main\n{COMMIT} refs/heads/main2\n^{'e' * 40}\n"
        )
        folder = repository(tmp_path, HEAD="ref: refs/heads/main2\n", packed_refs=packed)
        assert commit_at(str(folder)) == COMMIT

    def test_from_a_folder_inside(self, tmp_path: Path) -> None:
        repository(tmp_path, HEAD=COMMIT)
        (tmp_path / "a" / "b").mkdir(parents=True)
        assert commit_at(str(tmp_path / "a" / "b")) == COMMIT

    @needs_git
    def test_as_git_itself_says_it_in_a_further_work_tree_too(self, tmp_path: Path) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        first.mkdir()
        git(first, "init")
        assert commit_at(str(first)) is None  # none yet
        git(first, "commit", "--allow-empty", "-m", "one")
        git(first, "worktree", "add", "-b", "other", str(second))
        git(second, "commit", "--allow-empty", "-m", "two")
        git(first, "pack-refs", "--all")
        for folder in (first, second):
            assert commit_at(str(folder)) == git(folder, "rev-parse", "HEAD")
        assert commit_at(str(first)) != commit_at(str(second))

    @pytest.mark.parametrize(
        "head",
        [
            "",
            "ref: ",
            "ref: refs/heads/none\n",
            "ref: refs/../../secret\n",
            "ref: /etc/passwd\n",
            f"{COMMIT}0",
            "no commit",
            "\0" * 100,
        ],
    )
    def test_none_where_nothing_says_it(self, head: str, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text(COMMIT)
        assert commit_at(str(repository(tmp_path / "r", HEAD=head))) is None

    def test_none_outside_any(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / ".git").write_text("no gitdir")
        assert commit_at(str(tmp_path / "a")) is None

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        repository(tmp_path)
        os.mkfifo(tmp_path / ".git" / "HEAD")
        assert commit_at(str(tmp_path)) is None


class TestEnvironment:
    def test_says_packages_commit_and_python(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package, broken = (tmp_path / f"{name}-1.dist-info" for name in ("tilelang", "mindspore"))
        package.mkdir()
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: tilelang\nVersion: 0.1.5\n")
        broken.mkdir()
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.chdir(repository(tmp_path, HEAD=COMMIT))
        told = environment()
        assert told["kernel_trace.toolchain.tilelang"] == "0.1.5"
        assert "kernel_trace.toolchain.mindspore" not in told
        assert told["vcs.ref.head.revision"] == COMMIT
        assert str(told["process.runtime.version"]).startswith("3.")
        assert told["os.type"] in ("linux", "darwin")

    def test_nothing_where_the_working_folder_is_gone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        assert environment() == {}


class TestProbe:
    def program(self, folder: Path, name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    def test_asks_what_is_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # As CUDA 13.0 and a driver say it.
        self.program(tmp_path, "nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.48'")
        self.program(tmp_path, "nvidia-smi", "echo 'NVIDIA H100 80GB HBM3, 580.65.06'")
        self.program(tmp_path, "gcc", "echo 12.2.0")
        self.program(tmp_path, "clang", "echo fails; exit 1")
        monkeypatch.setenv("PATH", str(tmp_path))
        assert probe() == {
            "toolchain": {"nvcc": "13.0.48", "gcc": "12.2.0"},
            "device": "NVIDIA H100 80GB HBM3",
            "driver_version": "580.65.06",
        }

    def test_says_nothing_where_nothing_is(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.program(tmp_path, "nvcc", "echo what?")
        self.program(tmp_path, "nvidia-smi", "echo No devices were found")
        monkeypatch.setenv("PATH", str(tmp_path))
        assert probe() == {}


class TestDescribe:
    @pytest.fixture
    def spans(self) -> InMemorySpanExporter:
        return InMemorySpanExporter()

    @pytest.fixture
    def provider(self, spans: InMemorySpanExporter) -> TracerProvider:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(spans))
        return provider

    def test_is_on_the_tasks_root_span_whenever_it_is_said(
        self, provider: TracerProvider, spans: InMemorySpanExporter
    ) -> None:
        with KernelTracer("swish", "1", provider) as tracer:
            tracer.describe(seed=7, precision="fp16")
            with tracer.coder():
                pass
            tracer.describe(
                seed={"numpy": 2**80, "torch": "a"},
                precision="fp32",
                engine_version="8.6",
                commit=COMMIT,
                device="H100",
                driver_version="580",
                toolchain={"nvcc": "13.0"},
            )
        root = attributes_of(spans.get_finished_spans()[-1])
        assert {
            "kernel_trace.seed.default": 7,
            "kernel_trace.seed.numpy": str(2**80),  # OTLP's integers are shorter
            "kernel_trace.seed.torch": "a",
            "kernel_trace.engine.precision": "fp32",
            "kernel_trace.engine.version": "8.6",
            "vcs.ref.head.revision": COMMIT,
            "hw.model": "H100",
            "hw.driver_version": "580",
            "kernel_trace.toolchain.nvcc": "13.0",
        }.items() <= root.items()
        assert "kernel_trace.seed.default" not in attributes_of(spans.get_finished_spans()[0])

    def test_is_on_the_actions_where_the_root_is_another_process_s(
        self, provider: TracerProvider, spans: InMemorySpanExporter
    ) -> None:
        with KernelTracer("swish", "1", provider) as tracer, tracer.coder():
            there = KernelTracer.from_carrier(tracer.headers(), provider)
            there.describe(device="H100")
            with there.verifier():
                pass
        assert attributes_of(spans.get_finished_spans()[0])["hw.model"] == "H100"

    def test_costs_nothing_where_nothing_is_recorded(self) -> None:
        tracer = KernelTracer("swish", "1")
        tracer.describe(seed=1)
        with tracer.coder():
            pass
