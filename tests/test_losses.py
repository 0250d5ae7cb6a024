"""The table of losses: of actions done with ``configure()`` none is lost, however the process ends."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

_BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "losses.py"
_BURST, _ACTIONS = 3000, 30
_ROWS = {
    f"burst of {_BURST:,} actions": _BURST,
    "SIGKILL": _ACTIONS,
    "SIGTERM": _ACTIONS,
    "`os._exit`": _ACTIONS,
    "unhandled exception": _ACTIONS,
    "`multiprocessing` fork child": _ACTIONS,
    "deadlocked backend": _ACTIONS,
    "sampling 10 %": _ACTIONS,
    "length limit 1024, texts of 5 kB": _ACTIONS,
}
_PACKAGES = {
    "opentelemetry-exporter-otlp-json-file": "opentelemetry.exporter.otlp.json.file",
    "opentelemetry-util-genai": "opentelemetry.util.genai.handler",
    "fsspec": "fsspec",
}


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


_MISSING = [package for package, module in _PACKAGES.items() if not _is_there(module)]


def _table(folder: Path, *columns: str) -> dict[str, list[str]]:
    """The cells of the rows, by their title."""
    size = ["--burst", str(_BURST), "--actions", str(_ACTIONS)]
    done = subprocess.run(
        [sys.executable, str(_BENCHMARK), *size, "--columns", *columns, "--", str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    return {title: cells for title, *cells in rows[1:]}


def _counts(cell: str) -> tuple[int, int]:
    found = re.match(r"([0-9,]+) / ([0-9,]+) → ", cell)
    assert found, cell
    performed, recoverable = (int(count.replace(",", "")) for count in found.groups())
    return performed, recoverable


@pytest.mark.slow
def test_nothing_is_lost_however_the_process_ends(tmp_path: Path) -> None:
    assert _table(tmp_path, "ours") == {
        title: [f"{count:,} / {count:,} → 100 %"] for title, count in _ROWS.items()
    }
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}")
def test_what_is_lost_elsewhere_is_seen(tmp_path: Path) -> None:
    """Else the figures of ours would say nothing."""
    table = _table(tmp_path, "batch-tree", "batch-otlp", "upload")
    counts = {title: [_counts(cell) for cell in cells] for title, cells in table.items()}
    assert {title: {performed for performed, _ in cells} for title, cells in counts.items()} == {
        title: {count} for title, count in _ROWS.items()
    }
    assert all(recoverable <= performed for cells in counts.values() for performed, recoverable in cells)
    for title in ("SIGKILL", "sampling 10 %", "length limit 1024, texts of 5 kB"):
        assert all(recoverable < _ACTIONS for _, recoverable in counts[title][:2]), title
    # And what is not lost is found, wherever it is kept.
    *batches, uploaded = [recoverable for _, recoverable in counts["unhandled exception"]]
    assert batches == [_ACTIONS, _ACTIONS]
    assert uploaded > 0  # a machine that is busy may drop some
