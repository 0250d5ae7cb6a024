"""How redaction is switched on. What can't be understood switches on all of it, rather than nothing."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_kernel_trace import ActionType, KernelTraceSpanExporter, Redactor, Trace, configure
from otel_kernel_trace.configuration import attach
from otel_kernel_trace.settings import read_settings
from tests.spans import action_span
from tests.tree import tree

_REDACT = "OTEL_EXPORTER_KERNEL_TRACE_REDACT"
_AUDIT = "OTEL_EXPORTER_KERNEL_TRACE_AUDIT_DIR"
_TEXT = "password=abc ada@example.com KERN-1234 Nightingale"


def _written(log_dir: Path) -> str:
    KernelTraceSpanExporter(log_dir).export([action_span(parts={"prompt": _TEXT})])
    return tree(log_dir)["swish/I1_S01_swish_DO_CODER_prompt.txt"]


_ALL = "password=[redacted:password] [redacted:email] KERN-1234 Nightingale"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("true", _ALL),
        ("1", _ALL),
        ("ON", _ALL),
        ("false", _TEXT),
        ("0", _TEXT),
        ("", _TEXT),
        ("email", "password=abc [redacted:email] KERN-1234 Nightingale"),
        ("email, password", _ALL),
    ],
)
def test_by_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str, text: str) -> None:
    monkeypatch.setenv(_REDACT, value)
    assert _written(tmp_path) == text


@pytest.mark.parametrize("value", ["ture", "emails", "/nowhere/rules.toml", "rules.json", "email,,password"])
def test_a_bad_variable_is_one_log_line_and_all_that_is_built_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    monkeypatch.setenv(_REDACT, value)
    assert _written(tmp_path) == _ALL
    [line] = caplog.records
    assert line.levelno == logging.ERROR
    assert _REDACT in line.getMessage()


_RULES = {"words": ["Nightingale"], "patterns": {"ticket": "KERN-[0-9]{4,8}"}}


def test_by_a_file_of_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(json.dumps(_RULES))
    monkeypatch.setenv(_REDACT, str(tmp_path / "rules.json"))
    assert (
        _written(tmp_path / "logs")
        == "password=[redacted:password] [redacted:email] [redacted:ticket] [redacted:word]"
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML comes with Python 3.11")
def test_by_a_file_of_toml(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text('kinds = ["email"]\n[patterns]\nticket = "KERN-[0-9]{4,8}"\n')
    monkeypatch.setenv(_REDACT, str(tmp_path / "rules.toml"))
    assert _written(tmp_path / "logs") == "password=abc [redacted:email] [redacted:ticket] Nightingale"


@pytest.mark.parametrize(
    "more",
    [
        {"patterns": {"bad": "(", "ticket": "KERN-[0-9]{4,8}"}},
        {"kinds": ["nope"]},
        {"words": ["", "Nightingale"]},
    ],
)
def test_of_a_file_with_a_mistake_the_rest_is_used_and_all_that_is_built_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, more: dict[str, object]
) -> None:
    (tmp_path / "rules.json").write_text(json.dumps({**_RULES, **more}))
    monkeypatch.setenv(_REDACT, str(tmp_path / "rules.json"))
    assert (
        _written(tmp_path / "logs")
        == "password=[redacted:password] [redacted:email] [redacted:ticket] [redacted:word]"
    )
    assert len(caplog.records) == 1


@pytest.mark.parametrize("content", ["", "[1]", '{"pattern": {}}', '{"words": "x"}', "[" * 100_000, "\x00"])
def test_a_file_that_is_no_rules_is_all_that_is_built_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str
) -> None:
    (tmp_path / "rules.json").write_text(content)
    monkeypatch.setenv(_REDACT, str(tmp_path / "rules.json"))
    assert _written(tmp_path / "logs") == _ALL


def test_an_argument_comes_before_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(_REDACT, "true")
    assert read_settings(tmp_path, None, None, None, redact=False).redactor is None
    assert read_settings(tmp_path, None, None, None, redact=Redactor(kinds=["email"])).redactor == Redactor(
        kinds=["email"]
    )


@pytest.mark.parametrize(
    ("redact", "error"), [("emails", ValueError), (3, TypeError), (["email"], TypeError)]
)
def test_a_wrong_argument_is_told(tmp_path: Path, redact: bool, error: type[Exception]) -> None:
    with pytest.raises(error):
        KernelTraceSpanExporter(tmp_path, redact=redact)
    with pytest.raises(error):
        Trace("swish", "1", tmp_path, redact=redact)
    with pytest.raises(error):
        configure(tmp_path, redact=redact)


def test_a_trace_by_the_variable_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from otel_kernel_trace import ActionType

    monkeypatch.setenv(_REDACT, "true")
    Trace("swish", "1", tmp_path).insert_designer_or_coder_record("", _TEXT, "", ActionType.DO_CODER)
    assert tree(tmp_path)["swish/I1_S01_swish_DO_CODER_prompt.txt"] == _ALL


def test_the_audit_by_a_variable_and_a_bad_one_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(_REDACT, "true")
    monkeypatch.setenv(_AUDIT, str(tmp_path / "audit"))
    _written(tmp_path / "logs")
    assert _TEXT in json.loads(next((tmp_path / "audit").iterdir()).read_text())["text"]
    monkeypatch.setenv(_AUDIT, str(tmp_path / "more" / "audit"))
    assert _written(tmp_path / "more") == _ALL
    assert not (tmp_path / "more" / "audit").exists()
    assert _AUDIT in caplog.text


@pytest.mark.parametrize(("value", "lines"), [("true", 1), ("false", 0), ("", 0)])
def test_that_other_exporters_are_not_redacted_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, value: str, lines: int
) -> None:
    monkeypatch.setenv(_REDACT, value)
    attach()
    assert len(caplog.records) == lines


def test_what_was_found_is_a_metric(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    monkeypatch.setattr("otel_kernel_trace.metrics.get_meter_provider", lambda: provider)
    monkeypatch.setattr("otel_kernel_trace.metrics.get_meter", provider.get_meter)
    exporter = KernelTraceSpanExporter(tmp_path, redact=True)
    exporter.export([action_span(parts={"prompt": _TEXT, "reasoning": "password=x1y"})])
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        str((point.attributes or {})["kernel_trace.redacted.kind"]): getattr(point, "value", None)
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        if metric.name == "kernel_trace.redactions"
        for point in metric.data.data_points
    }
    assert found == dict(exporter.redactions.secrets) == {"password": 2, "email": 1}
    provider.shutdown()


def test_a_pipe_that_nobody_writes_to_is_no_file_of_rules(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "rules.toml")
    monkeypatch.setenv("OTEL_EXPORTER_KERNEL_TRACE_REDACT", str(tmp_path / "rules.toml"))
    trace = Trace("swish", "1", tmp_path / "logs")
    trace.insert_designer_or_coder_record("password=hunter2", "", "", ActionType.DO_CODER)
    trace.close()
    [result] = (tmp_path / "logs" / "swish").glob("*_result.txt")
    assert result.read_text() == "password=[redacted:password]"


def test_an_audit_without_redaction_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    KernelTraceSpanExporter(tmp_path / "logs", audit_dir=tmp_path / "audit")
    assert "redact is off" in caplog.text
