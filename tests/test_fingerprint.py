"""A task's fingerprint: what it tells, where from, and that it is the same there and back."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from otel_kernel_trace import ActionType, KernelTracer, Trace, configure
from otel_kernel_trace.actions import Agent
from otel_kernel_trace.checking.check import fingerprints_of
from otel_kernel_trace.diagnostics import Category, Diagnostic, Severity
from otel_kernel_trace.exporter import KernelTraceSpanExporter
from otel_kernel_trace.fingerprint.document import fingerprints_in, of_fingerprint, text_of
from otel_kernel_trace.fingerprint.fingerprint import MIB, Fingerprint, Refusal, StageCost, fingerprint_of
from otel_kernel_trace.reader import Tokens, Tree
from otel_kernel_trace.reader.model import Action, Outcome, Stage, Task
from otel_kernel_trace.reader.outcome import summary_of
from otel_kernel_trace.resources import KernelResources
from otel_kernel_trace.suspicion import Suspicion
from tests.spans import action_span


def task_of(*members: Action | Stage) -> Task:
    actions = tuple(one for one in members if isinstance(one, Action))
    stages = tuple(one for one in members if isinstance(one, Stage))
    return Task(summary_of("swish", "1", {}, {}, ()), actions, (), stages=stages)


def verification(at: int, *, passed: bool | None = None, **more: Any) -> Action:
    agent, span_id = Agent.VERIFIER, f"a{at}"
    made = Action("swish", "1", at, "VERIFY", agent, start=at, end=at + 1, passed=passed, span_id=span_id)
    return replace(made, **more)


def stage(at: int, name: str = "build", parent_id: str = "", **more: Any) -> Stage:
    return replace(Stage(name, at, at + 2_000_000_000, "t", f"s{at}", parent_id), **more)


def said(severity: Severity, message: str, category: Category = "other", signature: str = "") -> Diagnostic:
    return Diagnostic("nvcc", severity, category, message, signature=signature)


class TestOfATask:
    def test_of_which_nothing_is_known(self) -> None:
        assert fingerprint_of(task_of()) == Fingerprint("swish", "1", Outcome.UNVERIFIED)

    def test_of_several_builds_the_last_counts_and_of_memory_the_most(self) -> None:
        first = {
            "engine_version": "8.5",
            "precision": "fp32",
            "peak_memory": 2148 * MIB,
            "fusion_rate": 0.5,
            "fusions_made": 3,
            "fusions_refused": 3,
            "engine_time": 9.0,
        }
        last = {
            **first,
            "peak_memory": 892 * MIB,
            "fusion_rate": 0.92,
            "fusions_made": 12,
            "engine_time": 3.5,
        }
        found = fingerprint_of(task_of(stage(2, builder=last), stage(1, builder=first)))
        assert (found.engine_version, found.precision, found.peak_memory_mb) == ("8.5", "fp32", 2148)
        assert (found.fusion_rate, found.fusions_made, found.fusions_refused) == (0.92, 12, 3)
        assert found.compile_time == 3.5

    def test_the_lines_of_the_last_build_name_the_fusions(self) -> None:
        lines = (
            {"severity": "INFO", "message": "Fusing A with B", "kind": "fusion_made", "fused": "A with B"},
            {
                "severity": "WARNING",
                "message": "Cannot fuse C + D: unsupported broadcast pattern",
                "kind": "fusion_refused",
                "fused": "C + D",
                "reason": "unsupported broadcast pattern",
            },
            {"severity": "INFO", "message": "no fusion of E", "kind": "fusion_refused", "node": "E"},
        )
        before = ({"severity": "INFO", "message": "Fusing X", "kind": "fusion_made", "fused": "X"},)
        found = fingerprint_of(task_of(stage(1, builder_lines=before), verification(2, builder_lines=lines)))
        assert found.fused == ("A with B",)
        assert found.refused == (Refusal("C + D", "unsupported broadcast pattern"), Refusal("E"))
        assert found.warnings == ("Cannot fuse C + D: unsupported broadcast pattern",)

    def test_kernels_are_those_of_the_last_attempt(self) -> None:
        spills, keeps = (KernelResources("k", "sm_90", spill_stores=n, compile_time=0.5) for n in (64, 0))
        helper = KernelResources("helper", "sm_90")
        found = fingerprint_of(
            task_of(
                verification(1),
                stage(1, "verify", "a1"),
                stage(2, "nvcc", "s1", resources=(spills, helper)),  # inside the first, through a stage
                verification(5, resources=(keeps,)),
                verification(9),  # which tells nothing
            )
        )
        assert found.kernels == (keeps,)
        assert found.compile_time == 0.5

    def test_and_of_stages_outside_any_attempt_all(self) -> None:
        old, new = (KernelResources("k", registers=n) for n in (99, 32))
        other = KernelResources("other")
        stages = stage(1, resources=(old,)), stage(2, resources=(other,)), stage(3, resources=(new,))
        assert fingerprint_of(task_of(*stages)).kernels == (new, other)

    def test_parents_in_a_circle_are_no_trouble(self) -> None:
        kernel = KernelResources("k")
        round_about = stage(1, parent_id="s2", resources=(kernel,)), stage(2, parent_id="s1")
        assert fingerprint_of(task_of(*round_about)).kernels == (kernel,)

    def test_errors_by_category_and_signature_and_failures_that_nothing_explains(self) -> None:
        undefined = said("error", "x is undefined", "undefined_name", "nvcc:undefined_name:#")
        found = fingerprint_of(
            task_of(
                verification(1, passed=False, diagnostics=(undefined, said("warning", "unused"))),
                verification(2, passed=False),
                stage(3, parent_id="a2", diagnostics=(undefined, said("error", "?"))),
                verification(4, passed=False),
                verification(5, passed=False, diagnostics=(said("warning", "unused"),)),
                verification(6, passed=True),
            )
        )
        assert found.error_categories == {"undefined_name": 2, "other": 1}
        assert found.error_signatures == ("nvcc:undefined_name:#", "?")
        assert found.undiagnosed == 2
        assert found.warnings == ("unused",)

    def test_what_a_command_and_the_error_log_both_say_counts_once(self) -> None:
        undefined = said("error", "identifier 'x' is undefined", signature="nvcc:undefined_name:x")
        other = said("error", "another", signature="nvcc:other:another")
        checked = replace(verification(2, passed=False, diagnostics=(undefined,)), span_id="a2", trace_id="t")
        inside = replace(stage(3, parent_id="a2", diagnostics=(undefined, other)), trace_id="t")
        found = fingerprint_of(task_of(checked, inside))
        assert sum(found.error_categories.values()) == 2
        assert found.error_signatures == ("nvcc:undefined_name:x", "nvcc:other:another")

    def test_suspicions_are_those_of_what_passed(self) -> None:
        wrong = verification(1, passed=False, suspicions=(Suspicion("reference_fallback", "falls back"),))
        right = verification(2, passed=True, suspicions=(Suspicion("zero_time", "too fast"),))
        assert fingerprint_of(task_of(wrong, right)).suspicions == ("too fast",)

    def test_of_a_stage_that_ran_often_the_most(self) -> None:
        found = fingerprint_of(
            task_of(
                stage(1, "nvcc", peak_memory=3 * MIB),
                stage(2, "nvcc", peak_memory=1 * MIB, end=2 + 500_000_000),
                stage(3, "run", end=None),
            )
        )
        assert found.stages == {"nvcc": StageCost(2.0, 3.0), "run": StageCost()}

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 10**400, True, "12"])
    def test_numbers_that_none_can_compare_are_not_told(self, number: object) -> None:
        builder = dict.fromkeys(("peak_memory", "fusion_rate", "fusions_made", "engine_time"), number)
        found = fingerprint_of(task_of(stage(1, builder=builder)))
        assert (found.peak_memory_mb, found.fusion_rate, found.fusions_made) == (None, None, None)
        assert found.compile_time is None

    def test_warnings_are_told_once_and_not_endlessly(self) -> None:
        line = {"severity": "WARNING", "message": "w" * 10_000}
        [warning] = fingerprint_of(task_of(stage(1, builder_lines=(line, line)))).warnings
        assert len(warning) == 500


class TestOfATree:
    def test_with_what_the_pipeline_said_and_what_was_found_out(self, tmp_path: Path) -> None:
        provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
        with KernelTracer("swish", "1", provider) as tracer:
            tracer.describe(
                engine_version="8.6", precision="fp16+int8", seed=7, device="H100", commit="c0ffee"
            )
            with tracer.coder(prompt="p") as coder:
                coder.record("r")
                usage = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20}
                coder.span.set_attributes({**usage, "gen_ai.response.model": "m"})
            with tracer.verifier() as check:
                check.record(False, "error: it is wrong")
            with tracer.verifier() as check:
                check.record(True, profile={"speedup": 1.5})
        [found] = fingerprints_of(Tree(tmp_path))
        assert (found.engine_version, found.precision, found.git_commit) == ("8.6", "fp16+int8", "c0ffee")
        assert found.seeds == {"default": 7}
        assert found.device["model"] == "H100"
        assert "cpython" in found.toolchain or "pypy" in found.toolchain
        assert (found.outcome, found.steps, found.verified, found.passed) == (Outcome.PASSED, 3, 2, 1)
        assert (found.first_pass, found.best_speedup) == (3, 1.5)
        assert found.tokens_by_model == {"m": Tokens(100, 20)}

    def test_a_trace_tells_it_with_its_first_record(self, tmp_path: Path) -> None:
        trace = Trace("swish", "1", tmp_path)
        trace.insert_designer_or_coder_record("r", "p", "t", ActionType.DO_CODER)
        trace.insert_verifier_record("True", "", '{"speedup": 2.0}')
        [found] = fingerprints_of(Tree(tmp_path))
        assert found.toolchain
        assert found.best_speedup == 2.0

    def test_a_span_made_by_hand_and_a_resource_tell_it_too(self, tmp_path: Path) -> None:
        resource = Resource(
            {"hw.model": "A100", "vcs.ref.head.revision": "of the resource", "host.name": "h"}
        )
        maker = TracerProvider(resource=resource, shutdown_on_exit=False).get_tracer("by hand")
        given = {"vcs.ref.head.revision": "c0ffee", "kernel_trace.toolchain.nvcc": "13.0"}
        span = action_span("VERIFY", parts={"error_log": "e"}, more=given, tracer=maker)
        KernelTraceSpanExporter(tmp_path).export([span])
        [found] = fingerprints_of(Tree(tmp_path))
        assert (found.git_commit, found.device, found.toolchain) == (
            "c0ffee",
            {"model": "A100"},
            {"nvcc": "13.0"},
        )

    def test_what_a_later_run_says_counts(self, tmp_path: Path) -> None:
        for precision in ("fp32", "fp16"):
            provider = configure(tmp_path, tracer_provider=TracerProvider(shutdown_on_exit=False))
            with KernelTracer("swish", "1", provider) as tracer:
                tracer.describe(precision=precision)
                with tracer.coder():
                    pass
        [found] = fingerprints_of(Tree(tmp_path))
        assert found.precision == "fp16"


FULL = Fingerprint(
    op_name="swish",
    task_id="1",
    outcome=Outcome.PASSED,
    engine_version="8.6",
    precision="fp16+int8",
    peak_memory_mb=2148.0,
    fusion_rate=0.92,
    warnings=("Unsupported plugin: CustomRoPE",),
    fusions_made=12,
    fusions_refused=1,
    fused=("A + B",),
    refused=(Refusal("C + D", "unsupported broadcast pattern"),),
    compile_time=3.5,
    kernels=(KernelResources("k", "sm_90", 32, 8, 8, 16, 1024, 384, 1, 0.5), KernelResources("other")),
    stages={"nvcc": StageCost(2.0, 300.0), "run": StageCost()},
    git_commit="c0ffee",
    seeds={"default": 7, "long": str(2**80)},
    toolchain={"nvcc": "13.0"},
    device={"model": "H100"},
    steps=5,
    verified=2,
    passed=1,
    first_pass=5,
    best_speedup=1.5,
    tokens=Tokens(100, 20),
    tokens_by_model={"m": Tokens(100, 20)},
    error_categories={"crash": 1},
    error_signatures=("a:crash:#",),
    undiagnosed=1,
    suspicions=("too fast",),
)


class TestJson:
    def test_has_every_field_by_its_name(self) -> None:
        told = of_fingerprint(FULL)
        names = {field.name for field in fields(Fingerprint)} - {"first_pass"} | {"first_pass_step"}
        assert set(told) == names | {"max_registers", "max_spill_bytes"}
        assert (told["max_registers"], told["max_spill_bytes"]) == (32, 16)

    def test_of_the_document_of_the_issue(self) -> None:
        told = of_fingerprint(FULL)
        wanted = ("engine_version", "precision", "peak_memory_mb", "fusion_rate", "warnings")
        assert {name: told[name] for name in wanted} == {
            "engine_version": "8.6",
            "precision": "fp16+int8",
            "peak_memory_mb": 2148.0,
            "fusion_rate": 0.92,
            "warnings": ["Unsupported plugin: CustomRoPE"],
        }

    def test_there_and_back_is_the_same(self) -> None:
        both = [FULL, Fingerprint("", "")]
        assert fingerprints_in(text_of(both)) == both

    @given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.integers())
    def test_whatever_the_names_and_numbers(self, name: str, number: float, whole: int) -> None:
        kernels = (KernelResources(name, registers=whole, compile_time=number),)
        made = replace(FULL, op_name=name, warnings=(name,), seeds={name: whole}, kernels=kernels)
        assert fingerprints_in(text_of([made])) == [made]

    def test_halves_of_characters_and_numbers_that_are_none_make_no_bad_json(self) -> None:
        text = text_of([replace(FULL, op_name="\ud800", peak_memory_mb=math.nan, best_speedup=math.inf)])
        assert json.loads(text.encode())["tasks"][0]["op_name"] == "\ufffd"
        [back] = fingerprints_in(text)
        assert (back.peak_memory_mb, back.best_speedup) == (None, None)

    def test_fields_of_a_later_version_are_passed_over(self) -> None:
        told = json.loads(text_of([FULL]))
        told["tasks"][0]["of a later version"] = {}
        assert fingerprints_in(json.dumps(told)) == [FULL]

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("", "Expecting value"),
            ("[" * 100_000, "nested too deep"),
            ("[]", "schema is not"),
            ('{"schema": "otel-kernel-trace.ls.v1"}', "schema is not"),
            ('{"schema": "otel-kernel-trace.fingerprint.v1"}', "tasks is no list"),
            *(
                (f'{{"schema": "otel-kernel-trace.fingerprint.v1", "tasks": [{task}]}}', told)
                for task, told in [
                    ("3", "tasks[0]: an object was expected, not 3"),
                    ('{"steps": 1.5}', "tasks[0]: steps: a whole number was expected, not 1.5"),
                    ('{"best_speedup": NaN}', "best_speedup: a number was expected, not nan"),
                    ('{"best_speedup": true}', "best_speedup: a number was expected, not True"),
                    ('{"outcome": "great"}', "outcome: 'great' is not a valid Outcome"),
                    ('{"warnings": "one"}', "warnings is a list, not 'one'"),
                    ('{"warnings": [1]}', "warnings: a string was expected, not 1"),
                    ('{"stages": []}', "stages is an object, not []"),
                    ('{"kernels": [{"registers": "x"}]}', "kernels: registers: a whole number was expected"),
                    (f'{{"fusion_rate": 1{"0" * 400}}}', "fusion_rate: int too large"),
                ]
            ),
        ],
    )
    def test_what_is_none_is_told_where(self, text: str, told: str) -> None:
        with pytest.raises(ValueError, match=re.escape(told)):
            fingerprints_in(text)
