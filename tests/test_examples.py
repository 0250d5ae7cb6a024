"""The examples run as they stand and do what they say."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree import tree

_EXAMPLES = Path(__file__).parents[1] / "examples"
_MISSING = [name for name in ("openai", "numba", "numpy") if importlib.util.find_spec(name) is None]


def _run(example: str, folder: Path, *arguments: str, timeout: float = 60) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    done = subprocess.run(
        [sys.executable, _EXAMPLES / example, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_quickstart(tmp_path: Path) -> None:
    _run("quickstart.py", tmp_path)
    written = tree(tmp_path / "kernel_trace_logs")
    assert "swish/I123_S01_swish_DO_DESIGNER_result.txt" in written
    assert "swish/I123_S03_verify/swish_triton.py" in written


def test_existing_setup(tmp_path: Path) -> None:
    _run("existing_setup.py", tmp_path)
    assert "softmax/I42_S03_softmax_autotuner_result.txt" in tree(tmp_path / "kernel_trace_logs")


@pytest.mark.slow
@pytest.mark.skipif(bool(_MISSING), reason=f"the example extra is not installed: {', '.join(_MISSING)}")
def test_generate_kernel_tells_the_whole_story(tmp_path: Path) -> None:
    told = _run("generate_kernel.py", tmp_path, "--time-limit", "20", timeout=300)
    written = tree(tmp_path / "kernel_trace_logs")

    def part(op: str, step: int, name: str) -> str:
        [text] = [
            text for path, text in written.items() if re.search(rf"^{op}/.*_S{step:02d}_.*{name}", path)
        ]
        return text

    assert "NameError: name 'exp' is not defined" in part("swish", 3, "VERIFY_error_log.txt")
    assert "Failed in nopython mode" in part("swish", 3, "VERIFY_error_log.txt")
    assert "(7, 33)" in part("softmax", 3, "VERIFY_error_log.txt").splitlines()[1]
    assert "Mismatched elements" in part("softmax", 3, "VERIFY_error_log.txt")
    assert "killed after the time limit" in part("layer_norm", 3, "VERIFY_error_log.txt")
    assert "layer_norm_numba.py" in part("layer_norm", 3, "VERIFY_error_log.txt")  # where it hung
    assert "SIGSEGV" in part("matmul_bias_gelu", 3, "VERIFY_error_log.txt")
    assert "Mismatched elements" in part("matmul_bias_gelu", 5, "VERIFY_error_log.txt")
    analysis = json.loads(part("swish", 3, "AnalyzeError_result.txt"))
    assert "'exp' is not defined" in analysis["reason"]
    assert "'exp' is not defined" in part("swish", 4, "FIX_CODER_prompt.txt")
    assert "import math" in part("swish", 4, "FIX_CODER_result.txt")
    assert "from numba import njit" in part("swish", 5, "verify/swish_numba.py")
    assert "4 of 4 operators have a kernel that passed" in told
    assert "SCRIPTED" in told
    assert "You are the Designer" in part("swish", 1, "DO_DESIGNER_prompt.txt")  # from the model call
    for path in written:
        assert Path(path).name in told
