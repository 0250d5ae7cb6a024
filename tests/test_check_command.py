"""``check`` and ``fingerprint`` by real processes: what they say, what they write, how they end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from otel_kernel_trace import ActionType, Trace
from otel_kernel_trace.checking.judging import JUDGES
from otel_kernel_trace.checking.rules import TABLES, rules_in
from otel_kernel_trace.fingerprint.document import of_fingerprint
from otel_kernel_trace.fingerprint.fingerprint import Fingerprint
from otel_kernel_trace.tables import read_table

pytest.importorskip("click")
_ROOT = Path(__file__).parents[1]
_HELD, _CAN_NOT_BE_READ, _WRONG_USE, _UNHEALTHY = 0, 1, 2, 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a tree of one task that passed at its third step."""
    trace = Trace("swish", "1", tmp_path / "logs")
    trace.insert_designer_or_coder_record("r", "p", "t", ActionType.DO_CODER)
    trace.insert_verifier_record("False", "compiling\nCUDA error: an illegal memory access", "")
    trace.insert_verifier_record("True", "", '{"speedup": 1.5}')
    return tmp_path


def run(folder: Path, *arguments: str, status: int, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "GITHUB_ACTIONS"}
    done = subprocess.run(
        [sys.executable, "-c", "from otel_kernel_trace.cli import main; main()", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(_ROOT), **inherited, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


def rules(folder: Path, text: str) -> None:
    (folder / "rules.toml").write_text(text)


CHECK = ("check", "logs", "--rules", "rules.toml")


class TestCheck:
    def test_is_quiet_where_all_is_well(self, folder: Path) -> None:
        rules(folder, "[speedup]\nminimum = 1.5\n[pass_rate]\nminimum = 1.0\n")
        assert run(folder, *CHECK, status=_HELD).stdout == "1 task, 3 findings: 3 held\n"

    def test_says_task_by_task_what_fell_short_and_by_how_much(self, folder: Path) -> None:
        rules(
            folder,
            "[tasks]\nminimum = 2\n[speedup]\nminimum = 2.0\n[kernels]\nspill_bytes = 0\n"
            '[compile_time]\nmaximum = 1\noptional = true\n[messages]\nforbidden = "illegal"\n',
        )
        assert run(folder, *CHECK, status=_UNHEALTHY).stdout == (
            "all tasks\n"
            "  failed        tasks.minimum: 1, at least 2: 1 short (50 %)\n"
            "task swish · 1\n"
            "  failed        speedup.minimum: 1.5x, at least 2x: 0.5x short (25 %)\n"
            "  not measured  kernels.spill_bytes: no assembler's log tells of a kernel\n"
            "  skipped       compile_time.maximum: no compiler's or builder's log tells its time\n"
            "  failed        messages.forbidden: illegal: in 1 line, the first: "
            "CUDA error: an illegal memory access (swish/I1_S02_swish_VERIFY_error_log.txt:2)\n"
            "1 task, 5 findings: 3 failed, 1 not measured, 1 skipped\n"
        )

    def test_against_what_was_before(self, folder: Path) -> None:
        run(folder, "fingerprint", "logs", "-o", "baseline.json", status=0)
        better = (folder / "baseline.json").read_text().replace('"best_speedup": 1.5', '"best_speedup": 2.0')
        (folder / "better.json").write_text(better)
        rules(folder, "[speedup]\nmay_fall = 0.1\n")
        run(folder, *CHECK, "--baseline", "baseline.json", status=_HELD)
        run(folder, *CHECK, "--baseline", "logs", status=_HELD)
        told = run(folder, *CHECK, "--baseline", "better.json", status=_UNHEALTHY).stdout
        assert "op swish\n  failed        speedup.may_fall: 1.5x, at least 1.8x: 0.3x short (16.7 %)" in told

    def test_an_empty_tree_does_not_pass(self, folder: Path) -> None:
        (folder / "empty").mkdir()
        rules(folder, "[warnings]\nmaximum = 1\noptional = true\n")
        told = run(folder, "check", "empty", "--rules", "rules.toml", status=_UNHEALTHY).stdout
        assert "tasks.minimum: 0, at least 1" in told

    @pytest.mark.parametrize(
        ("arguments", "status", "told"),
        [
            (("check", "logs"), _WRONG_USE, "Missing option '--rules'"),
            (("check", "none", "--rules", "rules.toml"), _WRONG_USE, "'none' does not exist"),
            (CHECK, _WRONG_USE, "[speedup] may_fall compares, and no baseline is given"),
            ((*CHECK, "--baseline", "rules.toml"), _CAN_NOT_BE_READ, "rules.toml: Expecting value"),
            ((*CHECK, "--baseline", "empty"), _CAN_NOT_BE_READ, "there is no record in empty"),
            (
                (*CHECK, "--baseline", "logs", "--prices", "prices.json"),
                _CAN_NOT_BE_READ,
                "the price of 'm'",
            ),
            (
                (*CHECK, "--baseline", "logs", "--junit", "none/x.xml"),
                _CAN_NOT_BE_READ,
                "there is no folder none",
            ),
        ],
    )
    def test_what_can_not_be_found_out_has_another_status(
        self, folder: Path, arguments: tuple[str, ...], status: int, told: str
    ) -> None:
        (folder / "empty").mkdir()
        (folder / "prices.json").write_text('{"m": 1}')
        rules(folder, "[speedup]\nmay_fall = 0.1\n")
        assert told in run(folder, *arguments, status=status).stderr

    def test_wrong_rules_are_told_with_their_lines(self, folder: Path) -> None:
        rules(folder, "[kernels]\nspil_bytes = 0\n")
        told = run(folder, *CHECK, status=_WRONG_USE).stderr
        assert "rules.toml:2: [kernels] spil_bytes: unknown; did you mean spill_bytes?" in told

    def test_junit_is_written_whether_it_passes_or_not(self, folder: Path) -> None:
        for minimum, status, failures in (("1.0", _HELD, "0"), ("2.0", _UNHEALTHY, "1")):
            rules(folder, f"[speedup]\nminimum = {minimum}\n")
            run(folder, *CHECK, "--junit", "check.xml", status=status)
            root = ElementTree.parse(folder / "check.xml").getroot()
            assert (root.get("tests"), root.get("failures")) == ("2", failures)

    def test_annotations_are_said_in_githubs_actions_or_where_they_are_asked_for(self, folder: Path) -> None:
        rules(folder, '[messages]\nforbidden = "illegal"\n')
        annotation = (
            "::error file=logs/swish/I1_S02_swish_VERIFY_error_log.txt,line=2,title=messages.forbidden failed"
            "::swish · 1: illegal: in 1 line, the first: CUDA error: an illegal memory access\n"
        )
        assert "::error" not in run(folder, *CHECK, status=_UNHEALTHY).stdout
        assert run(folder, *CHECK, "--github", status=_UNHEALTHY).stdout.endswith(annotation)
        actions = {"GITHUB_ACTIONS": "true"}
        assert run(folder, *CHECK, status=_UNHEALTHY, **actions).stdout.endswith(annotation)
        assert "::error" not in run(folder, *CHECK, "--no-github", status=_UNHEALTHY, **actions).stdout
        done = run(folder, *CHECK, "--json", status=_UNHEALTHY, **actions)
        assert json.loads(done.stdout)["healthy"] is False
        assert done.stderr == annotation

    def test_nothing_in_a_log_or_a_name_is_obeyed(self, folder: Path) -> None:
        hostile = "::stop-commands::x"
        trace = Trace(hostile, "2\x1b[31m", folder / "logs")
        trace.insert_verifier_record("False", "bad ##[add-mask]x\r\x1b]0;title\x07", "")
        rules(folder, '[messages]\nforbidden = "bad"\n[steps]\nmay_grow = 0\n[fusions]\nminimum = 1\n')
        done = run(folder, *CHECK, "--baseline", "logs", "--github", status=_UNHEALTHY)
        lines = done.stdout.splitlines()
        commands = [line for line in lines if line.lstrip().startswith("::")]
        assert commands
        assert all(line.startswith("::error file=") for line in commands)
        assert not any("##[" in line for line in lines if line not in commands)
        assert not re.search("[\x00-\x09\x0b-\x1f]", done.stdout)

    def test_for_programs(self, folder: Path) -> None:
        rules(folder, "[speedup]\nminimum = 2.0\n")
        told = json.loads(run(folder, *CHECK, "--json", status=_UNHEALTHY).stdout)
        assert (told["schema"], told["healthy"], told["tasks"]) == ("otel-kernel-trace.check.v1", False, 1)
        assert told["findings"][1] == {
            "rule": "speedup.minimum",
            "status": "failed",
            "message": "1.5x, at least 2x: 0.5x short (25 %)",
            "op_name": "swish",
            "task_id": "1",
            "subject": None,
            "value": 1.5,
            "limit": 2.0,
            "difference": -0.5,
            "share": -0.25,
            "unit": "x",
            "file": None,
            "line": None,
            "rule_line": 2,
        }

    def test_with_prices(self, folder: Path) -> None:
        rules(folder, "[cost]\ntotal = 1\n")
        (folder / "prices.toml").write_text("[m]\ninput = 2.0\noutput = 8.0\n")
        assert "needs prices" in run(folder, *CHECK, status=_WRONG_USE).stderr
        told = run(folder, *CHECK, "--prices", "prices.toml", status=_UNHEALTHY).stdout
        assert "cost.total: of 1 tasks: no model call tells its tokens, or a model has no price" in told


class TestFingerprint:
    def test_is_json_on_stdout_or_in_a_file(self, folder: Path) -> None:
        said = run(folder, "fingerprint", "logs", status=0).stdout
        run(folder, "fingerprint", "logs", "swish", "1", "--output", "f.json", status=0)
        assert (folder / "f.json").read_text() == said
        [told] = json.loads(said)["tasks"]
        assert (told["op_name"], told["best_speedup"], told["first_pass_step"]) == ("swish", 1.5, 3)

    def test_of_one_op(self, folder: Path) -> None:
        Trace("softmax", "1", folder / "logs").insert_verifier_record("True", "", "")
        told = json.loads(run(folder, "fingerprint", "logs", "softmax", status=0).stdout)
        assert [task["op_name"] for task in told["tasks"]] == ["softmax"]

    @pytest.mark.parametrize("which", [("none",), ("none", "1"), ("swish", "none")])
    def test_what_is_not_there_is_told(self, folder: Path, which: tuple[str, ...]) -> None:
        assert "there is no" in run(folder, "fingerprint", "logs", *which, status=_CAN_NOT_BE_READ).stderr


class TestDocuments:
    DOCUMENT = (_ROOT / "docs" / "check.md").read_text()

    def test_the_table_has_every_rule(self) -> None:
        told: set[str] = set()
        table = ""
        for line in self.DOCUMENT.splitlines():
            if row := re.match(r"\| (?:`(\w+)`)? ?\| (`\w+`(?:, `\w+`)*) \|", line):
                table = row[1] or table
                told |= {f"{table}.{key}" for key in re.findall(r"`(\w+)`", row[2])}
        assert told == set(JUDGES)

    def test_the_example_has_every_rule_and_runs(self, folder: Path) -> None:
        [example] = re.findall("```toml\n(.*?)```", self.DOCUMENT, re.DOTALL)
        rules(folder, example)
        (folder / "prices.json").write_text("{}")
        given, _ = read_table(folder / "rules.toml", "rules")
        assert {rule.name for rule in rules_in(given)} == set(JUDGES)
        told = run(
            folder, *CHECK, "--baseline", "logs", "--prices", "prices.json", "--json", status=_UNHEALTHY
        )
        rules_found = {finding["rule"] for finding in json.loads(told.stdout)["findings"]}
        assert rules_found == set(JUDGES)

    def test_the_short_example_runs(self, folder: Path) -> None:
        (folder / "rules.toml").write_text((_ROOT / "examples" / "rules.toml").read_text())
        told = json.loads(run(folder, *CHECK, "--json", status=_UNHEALTHY).stdout)
        failures = [one["rule"] for one in told["findings"] if one["status"] in ("failed", "not measured")]
        assert failures == ["tokens.maximum", "messages.forbidden"]  # a Trace knows no tokens

    def test_every_field_of_a_fingerprint_is_described(self) -> None:
        described = (_ROOT / "docs" / "json.md").read_text().partition("## `fingerprint`")[2]
        for name in of_fingerprint(Fingerprint("", "")):
            assert f"`{name}`" in described

    def test_every_table_is_one_of_the_rules(self) -> None:
        assert {name.partition(".")[0] for name in JUDGES} == set(TABLES)
