"""Argument, else environment, else default."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from otel_kernel_trace import KernelTraceSpanExporter
from otel_kernel_trace.layout import AikgLayout, AkgAgentsLayout, DesignLayout
from otel_kernel_trace.settings import read_settings

_PREFIX = "OTEL_EXPORTER_KERNEL_TRACE_"


def test_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = read_settings(None, None, None, None)
    assert settings.log_dir == str(tmp_path / "kernel_trace_logs")
    assert isinstance(settings.layout, DesignLayout)
    assert settings.on_existing == "continue"
    assert settings.file_mode is None


def test_the_environment_sets_what_no_argument_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(f"{_PREFIX}LOG_DIR", "~/traces")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(f"{_PREFIX}LAYOUT", "aikg")
    monkeypatch.setenv(f"{_PREFIX}ON_EXISTING", "fail")
    monkeypatch.setenv(f"{_PREFIX}FILE_MODE", "0640")
    settings = read_settings(None, None, None, None)
    assert settings.log_dir == str(tmp_path / "traces")
    assert isinstance(settings.layout, AikgLayout)
    assert settings.on_existing == "fail"
    assert settings.file_mode == 0o640

    settings = read_settings(tmp_path, "akg_agents", "overwrite", 0o600)
    assert settings.log_dir == str(tmp_path)
    assert isinstance(settings.layout, AkgAgentsLayout)
    assert (settings.on_existing, settings.file_mode) == ("overwrite", 0o600)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LAYOUT", "nope"),
        ("ON_EXISTING", "ask"),
        ("FILE_MODE", "rw-"),
        ("FILE_MODE", "0o7777"),
        ("FILE_MODE", "0"),
    ],
)
def test_a_bad_value_in_the_environment_is_one_log_line_and_the_default(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, value: str
) -> None:
    monkeypatch.setenv(f"{_PREFIX}{name}", value)
    settings = read_settings("x", None, None, None)
    assert isinstance(settings.layout, DesignLayout)
    assert (settings.on_existing, settings.file_mode) == ("continue", None)
    [line] = caplog.records
    assert line.levelno == logging.ERROR
    assert f"{_PREFIX}{name}" in line.getMessage()
    assert line.exc_info is None


def test_an_empty_variable_is_not_set(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(f"{_PREFIX}LAYOUT", "")
    assert isinstance(read_settings("x", None, None, None).layout, DesignLayout)
    assert not caplog.records


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"layout": "nope"}, ValueError),
        ({"on_existing": "ask"}, ValueError),
        ({"file_mode": 0o1777}, ValueError),
        ({"file_mode": 0o400}, ValueError),
        ({"file_mode": 0o200}, ValueError),
        ({"file_mode": 1.5}, TypeError),
        ({"log_dir": ""}, ValueError),
        ({"log_dir": "~nobody-of-that-name/x"}, ValueError),
        ({"log_dir": "a\0b"}, ValueError),
        ({"log_dir": b"bytes"}, TypeError),
        ({"log_dir": 7}, TypeError),
    ],
)
def test_a_bad_argument_is_told_to_the_program(arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        KernelTraceSpanExporter(**arguments)  # type: ignore[arg-type]  # that is the point


def test_the_tree_stays_where_it_was_when_the_program_changes_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    exporter = KernelTraceSpanExporter("logs")
    os.mkdir("elsewhere")
    monkeypatch.chdir("elsewhere")
    assert exporter.log_dir == str(tmp_path / "logs")
