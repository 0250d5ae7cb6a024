"""The ways in which OpenTelemetry itself finds the exporter."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from otel_kernel_trace import KernelTraceSpanExporter
from tests.tree import tree

_PIPELINE = """
from otel_kernel_trace import KernelTracer

with KernelTracer("swish", "7") as tracer, tracer.coder(prompt="p") as action:
    action.record(result="r")
"""

_FILES = {
    "swish/I7_S01_swish_DO_CODER_prompt.txt": "p",
    "swish/I7_S01_swish_DO_CODER_reasoning.txt": "",
    "swish/I7_S01_swish_DO_CODER_result.txt": "r",
}


def _needs(module: str, package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed")


def _instrumented(
    folder: Path, program: str = _PIPELINE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A program under ``opentelemetry-instrument``."""
    (folder / "pipeline.py").write_text(program)
    return subprocess.run(
        ["opentelemetry-instrument", "python", "pipeline.py"],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_entry_point_leads_to_the_exporter() -> None:
    [found] = entry_points(group="opentelemetry_traces_exporter", name="kernel_trace")
    assert found.load() is KernelTraceSpanExporter


@_needs("opentelemetry.distro", "opentelemetry-distro")
class TestEnvironment:
    def test_beside_another_exporter(self, tmp_path: Path) -> None:
        done = _instrumented(
            tmp_path,
            OTEL_TRACES_EXPORTER="kernel_trace,console",
            OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR=str(tmp_path / "logs"),
        )
        assert done.returncode == 0, done.stderr
        assert tree(tmp_path / "logs") == _FILES
        assert '"name": "DO_CODER"' in done.stdout

    @pytest.mark.parametrize("exporter", ["console", "kernel_trace,console"])
    @pytest.mark.parametrize("sampler", ["always_on", "parentbased_traceidratio"])
    def test_no_code_and_no_exporter_of_ours_just_the_folder(
        self, tmp_path: Path, exporter: str, sampler: str
    ) -> None:
        done = _instrumented(
            tmp_path,
            OTEL_TRACES_EXPORTER=exporter,
            OTEL_TRACES_SAMPLER=sampler,
            OTEL_TRACES_SAMPLER_ARG="0.0",
            OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT="50",
            OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR=str(tmp_path / "logs"),
        )
        assert done.returncode == 0, done.stderr
        assert tree(tmp_path / "logs") == _FILES
        assert ('"name": "DO_CODER"' in done.stdout) == (sampler == "always_on")
        [shard] = (tmp_path / "logs" / ".kernel_trace" / "index").iterdir()
        assert len(shard.read_text().splitlines()) == 3  # begin and end of the action, and the task

    def test_without_the_folder_nothing_is_written(self, tmp_path: Path) -> None:
        done = _instrumented(tmp_path, OTEL_TRACES_EXPORTER="console")
        assert done.returncode == 0, done.stderr
        assert '"name": "DO_CODER"' in done.stdout
        assert [path.name for path in tmp_path.iterdir()] == ["pipeline.py"]

    def test_a_program_that_leaves_by_sigkill_has_all_that_ended(self, tmp_path: Path) -> None:
        done = _instrumented(
            tmp_path,
            _PIPELINE + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            OTEL_TRACES_EXPORTER="console",
            OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR=str(tmp_path / "logs"),
        )
        assert done.returncode != 0
        assert tree(tmp_path / "logs") == _FILES

    def test_where_nothing_sets_up_a_provider_that_is_told(self, tmp_path: Path) -> None:
        done = _instrumented(
            tmp_path,
            OTEL_PYTHON_CONFIGURATOR="none_such",
            OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR=str(tmp_path / "logs"),
        )
        assert done.returncode == 0, done.stderr
        assert "nothing has set up a TracerProvider" in done.stderr
        assert not (tmp_path / "logs").exists()

    @pytest.mark.parametrize("variable", ["LAYOUT", "ON_EXISTING", "FILE_MODE"])
    def test_a_bad_value_is_one_log_line_and_costs_nobody_anything(
        self, tmp_path: Path, variable: str
    ) -> None:
        name = f"OTEL_EXPORTER_KERNEL_TRACE_{variable}"
        done = _instrumented(
            tmp_path,
            OTEL_TRACES_EXPORTER="kernel_trace,console",
            OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR=str(tmp_path / "logs"),
            **{name: "nonsense"},
        )
        assert done.returncode == 0, done.stderr
        assert len([line for line in done.stderr.splitlines() if name in line]) == 1
        assert "Traceback" not in done.stderr
        assert tree(tmp_path / "logs") == _FILES
        assert '"name": "DO_CODER"' in done.stdout

    def test_a_folder_that_can_not_be_is_told_and_costs_nobody_anything(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        done = _instrumented(
            tmp_path,
            OTEL_TRACES_EXPORTER="kernel_trace,console",
            OTEL_EXPORTER_KERNEL_TRACE_LOG_DIR=str(tmp_path / "file" / "logs"),
        )
        assert done.returncode == 0, done.stderr
        assert len([line for line in done.stderr.splitlines() if "could not write" in line]) == 1
        assert "Traceback" not in done.stderr
        assert '"name": "DO_CODER"' in done.stdout


@_needs("opentelemetry.distro", "opentelemetry-distro")
@_needs("opentelemetry.configuration", "opentelemetry-configuration")
def test_a_declarative_configuration_file(tmp_path: Path) -> None:
    def simple(exporter: Mapping[str, object]) -> dict[str, object]:
        return {"simple": {"exporter": exporter}}

    ours = {"kernel_trace": {"log_dir": str(tmp_path / "logs"), "layout": "aikg", "file_mode": "600"}}
    configuration = {
        "file_format": "1.0",
        "tracer_provider": {"processors": [simple(ours), simple({"console": None})]},
    }
    (tmp_path / "otel.json").write_text(json.dumps(configuration))
    (tmp_path / "otel.yaml").write_text(json.dumps(configuration))  # JSON is YAML
    done = _instrumented(tmp_path, OTEL_CONFIG_FILE=str(tmp_path / "otel.yaml"))
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "logs") == {
        path.replace("DO_CODER", "DoCoder"): text for path, text in _FILES.items()
    }
    assert '"name": "DO_CODER"' in done.stdout


def test_importing_takes_nothing_but_opentelemetry_and_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); import otel_kernel_trace; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    allowed = set(sys.stdlib_module_names) | {"opentelemetry", "otel_kernel_trace", "typing_extensions"}
    # What older SDKs import themselves.
    allowed |= {"importlib_metadata", "zipp", "deprecated", "wrapt", "psutil", "_wrapt_cpp"}
    assert set(done.stdout.split()) <= allowed
