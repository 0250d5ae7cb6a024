"""A tree as documents in the Elastic Common Schema."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

from otel_kernel_trace import ActionType, KernelTracer, Trace, configure
from otel_kernel_trace.actions import Agent
from otel_kernel_trace.commands import command
from otel_kernel_trace.diagnostics.model import Diagnostic
from otel_kernel_trace.ecs import ECS_VERSION, FIELDS, index_template, write_ecs
from otel_kernel_trace.ecs.documents import documents_of
from otel_kernel_trace.ecs.writing import _line
from otel_kernel_trace.reader import Action, ModelCall, Outcome, Part, Summary, Task, Tokens, Tree
from otel_kernel_trace.reader.model import Stage
from otel_kernel_trace.resources import KernelResources
from otel_kernel_trace.suspicion import Suspicion
from tests.elasticsearch import Elasticsearch

DOCS = Path(__file__).parent.parent / "docs"
START = 1_795_000_000_123_456_789

SUMMARY = Summary(
    "swish", "7", Outcome.PASSED, 3, 3, 1, 1, 3, 1.25, Tokens(), START, START + 9, 9, 0, "VERIFY", 3, None
)
UNDEFINED = Diagnostic(
    "nvcc",
    "error",
    "undefined_name",
    'identifier "entry" is undefined',
    file="mla.cu",
    line=12,
    column=5,
    identifier="entry",
    signature="nvcc:undefined_name:entry",
    code="20",
    log_line=3,
    notes=("a note",),
    figures={"total": 4096.0},
)
VERIFY = Action(
    "swish",
    "7",
    3,
    "VERIFY",
    Agent.VERIFIER,
    start=START,
    end=START + 1_500,
    passed=False,
    error="verification failed",
    speedup=1.25,
    profile={"base_time_us": 10, "gen_time_us": 8, "speedup": 1.25, "method": "median of 9 runs"},
    framework="torch",
    impl_type="triton",
    tokens=Tokens(5, 6),
    model="m",
    trace_id="1" * 32,
    span_id="2" * 16,
    parent_id="3" * 16,
    parts={"error_log": Part("error_log", inline="Traceback\nNameError: entry")},
    diagnostics=(UNDEFINED, replace(UNDEFINED, severity="warning")),
    resources=(KernelResources("_Z4swish", "sm_90", registers=32, compile_time=0.5),),
    suspicions=(Suspicion("zero_time", "Its time is 0.", 3, "x = 0"),),
)
CALL = ModelCall("chat m", START, START + 5, "m", Tokens(5, 6), "", "1" * 32, "4" * 16, "2" * 16)
STAGE = Stage(
    "compile",
    START,
    START + 2_000_000,
    "1" * 32,
    "5" * 16,
    "2" * 16,
    error="exit status 1",
    cpu_time=0.5,
    peak_memory=1 << 30,
    command=("nvcc", "-DX=1 2", "a.cu"),
    exit_code=1,
    macros=("X=1 2",),
    outputs={"stderr": Part("stderr", "swish/log.txt", 12, "a" * 64)},
    diagnostics=(UNDEFINED, replace(UNDEFINED, signature="of the stage alone")),
    builder={"fusions_made": 3, "fusion_rate": 0.5},
    builder_lines=(
        {"severity": "WARNING", "message": "Cannot fuse A + B: shape", "kind": "fusion_refused", "tactic": 7},
        {"severity": "VERBOSE", "message": "Tactic", "kind": "tactic_timed", "tactic": "0x1f"},
    ),
)
TASK = Task(SUMMARY, (VERIFY,), (CALL,), (), (STAGE,))


NAMES = ["a/b · c", '\0\n"\\', "lone \ud83d", "矩阵", "", ".a..b.", "x" * 40_000, "矩" * 40_000]


def _named(name: str) -> Task:
    """A task in which a name stands wherever one can."""
    action = replace(
        VERIFY,
        action_type=name,
        framework=name,
        error=name,
        profile={name: name},
        parts={name: Part(name, name, 2**70, inline=name)},
        diagnostics=(replace(UNDEFINED, message=name, tool=name, figures={name: 1.0}),),
    )
    stage = replace(STAGE, name=name, command=(name,), builder_lines=({name: name, "message": name},))
    return Task(replace(SUMMARY, op_name=name, task_id=name), (action,), (), (), (stage,))


def _documents(task: Task = TASK) -> list[dict[str, object]]:
    lines = [_line(one) for one in documents_of(task, lambda part: part.inline or "", lambda _: None)]
    return [json.loads(line) for line in lines]


def _written(log_dir: Path) -> list[dict[str, object]]:
    out = io.BytesIO()
    done = write_ecs(Tree(log_dir), out)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert done.documents == len(lines)
    return lines


def _get(document: object, name: str) -> object:
    for word in name.split("."):
        document = document.get(word) if isinstance(document, dict) else None
    return document


def _leaves(document: object, before: str = "") -> Iterator[tuple[str, object]]:
    """Every value with its field's name, as Elasticsearch indexes them."""
    if FIELDS.get(before) == "flattened" or not isinstance(document, (dict, list)):
        yield before, document
    elif isinstance(document, list):
        for one in document:
            yield from _leaves(one, before)
    else:
        for name, value in document.items():
            assert "." not in name
            yield from _leaves(value, f"{before}.{name}" if before else name)


def _fits(kind: str, value: object) -> bool:
    """Whether Elasticsearch takes a value for a field of a type, strictly."""
    if kind in ("keyword", "wildcard", "match_only_text"):
        return isinstance(value, str) and len(value.encode()) <= 32_766
    if kind == "date":
        return isinstance(value, str) and bool(datetime.fromisoformat(value[:26] + "+00:00"))
    if kind in ("long", "integer"):
        most = 2**63 if kind == "long" else 2**31
        return type(value) is int and -most <= value < most
    if kind == "double":
        return type(value) is float
    if kind == "flattened":
        return isinstance(value, dict) and all(
            isinstance(one, str) and len((key + one).encode()) < 32_766 for key, one in value.items()
        )
    return kind == "boolean" and isinstance(value, bool)


def _assert_fits(document: object) -> None:
    for name, value in _leaves(document):
        assert name in FIELDS, name
        assert _fits(FIELDS[name], value), (name, value)


# Copied from https://github.com/elastic/ecs/tree/v8.17.0/schemas (and gen_ai.yml of the main branch).
PUBLISHED = {
    "base.yml": {"@timestamp": "date", "message": "match_only_text", "labels": "object"},
    "ecs.yml": {"ecs.version": "keyword"},
    "error.yml": {
        "error.message": "match_only_text",
        "error.stack_trace": "wildcard",
        "error.type": "keyword",
    },
    "event.yml": {
        "event.action": "keyword",
        "event.category": "keyword",
        "event.dataset": "keyword",
        "event.duration": "long",
        "event.end": "date",
        "event.id": "keyword",
        "event.kind": "keyword",
        "event.module": "keyword",
        "event.outcome": "keyword",
        "event.start": "date",
        "event.type": "keyword",
    },
    "gen_ai.yml": {
        "gen_ai.agent.name": "keyword",
        "gen_ai.operation.name": "keyword",
        "gen_ai.response.model": "keyword",
        "gen_ai.usage.input_tokens": "integer",
        "gen_ai.usage.output_tokens": "integer",
    },
    "log.yml": {
        "log.level": "keyword",
        "log.origin.file.line": "long",
        "log.origin.file.name": "keyword",
        "log.origin.function": "keyword",
    },
    "process.yml": {
        "process.args": "keyword",
        "process.args_count": "long",
        "process.command_line": "wildcard",
        "process.exit_code": "long",
    },
    "service.yml": {"service.name": "keyword"},
    "tracing.yml": {"span.id": "keyword", "trace.id": "keyword"},
}
# https://www.elastic.co/guide/en/ecs/8.17/ecs-category-field-values-reference.html
ALLOWED = {
    "event.kind": {"alert", "asset", "enrichment", "event", "metric", "state", "pipeline_error", "signal"},
    "event.category": {"process"},  # of those that there are, the one that fits
    "event.type": {"end", "error", "info", "start"},
    "event.outcome": {"failure", "success", "unknown"},
}


class TestTheSchema:
    def test_fields_have_the_published_types(self) -> None:
        published = {name: kind for fields in PUBLISHED.values() for name, kind in fields.items()}
        ours = {name: kind for name, kind in FIELDS.items() if not name.startswith("kernel_trace.")}
        assert {name for name in ours if name not in published} == {
            "labels.op_name",  # objects of keywords
            "labels.task_id",
            "parent.id",  # Elastic APM's
        }
        assert {name: kind for name, kind in ours.items() if name in published} == {
            name: kind for name, kind in published.items() if name in ours
        }

    def test_no_field_is_an_object_and_a_value(self) -> None:
        for name in FIELDS:
            for at, letter in enumerate(name):
                if letter == ".":
                    assert FIELDS.get(name[:at], "nested") == "nested"

    def test_the_index_template_is_the_documented_one(self) -> None:
        assert json.loads((DOCS / "ecs-template.json").read_text()) == index_template()

    def test_every_field_of_ours_is_documented(self) -> None:
        told = (DOCS / "ecs.md").read_text()
        groups = {".".join(name.split(".")[:2]) for name in FIELDS if name.startswith("kernel_trace.")}
        assert not [group for group in groups if f"`{group}" not in told]


class TestDocuments:
    def test_one_for_each_action_call_stage_diagnostic_and_line_of_a_builder(self) -> None:
        assert [_get(one, "event.dataset") for one in _documents()] == [
            "kernel_trace.action",
            "kernel_trace.diagnostic",
            "kernel_trace.diagnostic",
            "kernel_trace.model_call",
            "kernel_trace.stage",
            "kernel_trace.diagnostic",
            "kernel_trace.builder",
            "kernel_trace.builder",
        ]

    def test_all_fit_the_schema_and_its_allowed_values(self) -> None:
        for document in _documents():
            _assert_fits(document)
            for name, allowed in ALLOWED.items():
                value = _get(document, name)
                values = value if isinstance(value, list) else [value] if value is not None else []
                assert set(values) <= allowed
            assert _get(document, "ecs.version") == ECS_VERSION
            assert _get(document, "event.kind") == "event"

    def test_an_action(self) -> None:
        document = _documents()[0]
        told = {
            "@timestamp": "2026-11-18T11:06:40.123458289Z",
            "event.duration": 1500,
            "event.outcome": "failure",
            "event.action": "VERIFY",
            "log.level": "error",
            "message": "VERIFY at step 3: failed",
            "error.message": "verification failed",
            "error.type": "20",
            "error.stack_trace": "Traceback\nNameError: entry",
            "trace.id": "1" * 32,
            "span.id": "2" * 16,
            "parent.id": "3" * 16,
            "gen_ai.usage.input_tokens": 5,
            "labels.op_name": "swish",
            "kernel_trace.measurement.base_time": pytest.approx(1e-5),
            "kernel_trace.measurement.method": "median of 9 runs",
            "kernel_trace.speedup": 1.25,
        }
        assert {name: _get(document, name) for name in told} == told
        assert _get(document, "kernel_trace.suspicion") == [
            {
                "kind": "zero_time",
                "reason": "Its time is 0.",
                "line": 3,
                "evidence": "x = 0",
                "confidence": "medium",
            }
        ]
        assert _get(document, "kernel_trace.resources") == [
            {"entry": "_Z4swish", "arch": "sm_90", "registers": 32, "compile_time": 0.5}
        ]

    def test_a_diagnostic(self) -> None:
        error, warning = _documents()[1:3]
        assert (_get(error, "log.level"), _get(warning, "log.level")) == ("error", "warn")
        assert _get(error, "log.origin.file") == {"name": "mla.cu", "line": 12}
        assert _get(error, "error.message") == 'identifier "entry" is undefined'
        assert _get(warning, "error") is None
        assert _get(error, "kernel_trace.step") == 3
        assert _get(error, "kernel_trace.diagnostic.figures") == {"total": "4096.0"}
        assert _get(error, "@timestamp") == _get(_documents()[0], "@timestamp")

    def test_a_command(self) -> None:
        document = _documents()[4]
        assert _get(document, "event.category") == ["process"]
        assert _get(document, "process") == {
            "args": ["nvcc", "-DX=1 2", "a.cu"],
            "args_count": 3,
            "command_line": "nvcc '-DX=1 2' a.cu",
            "exit_code": 1,
        }
        assert _get(document, "kernel_trace.part") == [
            {"name": "stderr", "path": "swish/log.txt", "sha256": "a" * 64, "size": 12}
        ]

    def test_facts_of_a_builder_are_texts_so_that_no_two_clash(self) -> None:
        first, second = _documents()[6:]
        assert _get(first, "kernel_trace.builder.facts") == {"tactic": "7"}
        assert _get(second, "kernel_trace.builder.facts") == {"tactic": "0x1f"}
        assert (_get(first, "log.level"), _get(second, "log.level")) == ("warn", "debug")


class TestIds:
    def test_are_the_same_in_every_export_and_of_no_two_documents(self) -> None:
        first, second = ([_get(one, "event.id") for one in _documents()] for _ in range(2))
        assert first == second
        assert len(set(first)) == len(first)

    def test_tell_a_beginning_from_its_end(self) -> None:
        begun = replace(VERIFY, end=None, is_pending=True, diagnostics=())
        document = _documents(Task(SUMMARY, (begun,), ()))[0]
        assert _get(document, "event.id") != _get(_documents()[0], "event.id")
        assert (_get(document, "event.type"), _get(document, "event.outcome")) == (["start"], "unknown")

    def test_of_actions_without_spans(self) -> None:
        bare = replace(VERIFY, trace_id="", span_id="")
        copies = Task(SUMMARY, (bare, replace(bare, copy=2), replace(bare, step=4)), ())
        ids = [_get(one, "event.id") for one in _documents(copies)]
        assert len(set(ids)) == len(ids)


class TestWhateverATreeHolds:
    def test_a_real_tree(self, tmp_path: Path) -> None:
        provider = TracerProvider(shutdown_on_exit=False)
        configure(tmp_path, tracer_provider=provider)
        with KernelTracer("swish", "1", provider) as tracer:
            with tracer.coder(prompt="p" * 50_000) as code:
                given = {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m"}
                provider.get_tracer("client").start_span("chat m", attributes=given).end()
                code.record(result="r")
            with tracer.verifier() as check:
                check.record(False, "Traceback\nNameError: exp", {"speedup": 0.5})
        documents = _written(tmp_path)
        assert [_get(one, "event.action") for one in documents] == [
            *("DO_CODER", "VERIFY", "diagnostic", "model_call")
        ]
        parts = _get(documents[0], "kernel_trace.part")
        assert isinstance(parts, list)
        [prompt] = [part for part in parts if part["name"] == "prompt"]
        assert (prompt["size"], len(prompt["excerpt"])) == (50_000, 2000)
        assert prompt["path"] == "swish/I1_S01_swish_DO_CODER_prompt.txt"
        assert _get(documents[1], "error.stack_trace") == "Traceback\nNameError: exp"
        for document in documents:
            _assert_fits(document)
        assert documents == _written(tmp_path)

    def test_a_tree_without_an_index_has_the_times_of_its_files(self, tmp_path: Path) -> None:
        (tmp_path / "swish").mkdir()
        (tmp_path / "swish/I1_S01_swish_DO_CODER_prompt.txt").write_text("p")
        [document] = _written(tmp_path)
        assert _get(document, "kernel_trace.time_is_of_file") is True
        assert isinstance(_get(document, "@timestamp"), str)
        _assert_fits(document)

    @pytest.mark.parametrize(
        "name", ["a/b · c", '\0\n"\\', "lone \ud83d", "矩阵", "", "x" * 40_000, "矩" * 40_000]
    )
    def test_any_name(self, name: str) -> None:
        for document in _documents(_named(name)):
            _assert_fits(document)

    @settings(max_examples=50, deadline=None)
    @given(st.integers(), st.floats(), st.integers(-(2**70), 2**70), st.text(max_size=20))
    def test_any_number(self, number: int, fraction: float, time: int, text: str) -> None:
        action = replace(
            VERIFY, speedup=fraction, start=time, end=time + number, step=number, tokens=Tokens(number, 2**40)
        )
        stage = replace(
            STAGE, exit_code=number, cpu_time=fraction, peak_memory=number, builder={text: fraction}
        )
        for document in _documents(Task(SUMMARY, (action,), (), (), (stage,))):
            _assert_fits(document)

    def test_what_has_no_time_at_all_is_counted(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path)
        trace.insert_verifier_record("True", "", "")
        [shard] = (tmp_path / ".kernel_trace/index").iterdir()
        line = json.loads(shard.read_text().splitlines()[-1])
        span = line["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        del span["startTimeUnixNano"], span["endTimeUnixNano"]
        shard.write_text(json.dumps(line) + "\n")
        out = io.BytesIO()
        done = write_ecs(Tree(tmp_path), out)
        assert (done.documents, done.untimed, out.getvalue()) == (0, 1, b"")


@pytest.mark.elasticsearch
class TestARealElasticsearch:
    """What it takes, and how often. It has not all modules, so that two types are told by others."""

    def test_takes_every_document_once(self) -> None:
        with Elasticsearch() as elastic:
            mappings = json.dumps(index_template()["template"])
            # Of Elastic's own modules are types that index less of the same; a keyword takes no longer text.
            for its_own, here in (("wildcard", "keyword"), ("match_only_text", "text")):
                mappings = mappings.replace(f'"{its_own}"', f'"{here}"')
            elastic.call("PUT", "/trees", mappings.replace('"dynamic": false', '"dynamic": "strict"'))
            documents = _documents()
            for name in NAMES:
                documents += _documents(_named(name))
            for _ in range(2):
                lines = [
                    json.dumps(one, ensure_ascii=False)
                    for document in documents
                    for one in ({"index": {"_id": _get(document, "event.id")}}, document)
                ]
                answer = elastic.call("POST", "/trees/_bulk?refresh=true", "\n".join(lines) + "\n")
                assert answer["errors"] is False
                assert elastic.call("GET", "/trees/_count")["count"] == len(documents)


class TestTheCommand:
    def test_writes_a_file(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path / "tree")
        trace.insert_designer_or_coder_record("r", "p", "", ActionType.DO_CODER)
        output = tmp_path / "trace.ecs.jsonl"
        done = CliRunner().invoke(command, ["export", str(tmp_path / "tree"), "--ecs", "-o", str(output)])
        assert (done.exit_code, done.stderr) == (0, "1 documents of 1 tasks\n")
        assert len(output.read_text().splitlines()) == 1

    def test_of_no_tree_says_so(self, tmp_path: Path) -> None:
        done = CliRunner().invoke(command, ["export", str(tmp_path), "--ecs"])
        assert done.exit_code == 1
        assert "there is no record" in done.stderr
