"""Rules: when each holds, by how much it does not, and that what is not told does not pass."""

from __future__ import annotations

import contextlib
import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_kernel_trace import ActionType, Trace
from otel_kernel_trace.checking import Finding, Health, RulesError, UnhealthyError, check_log_health
from otel_kernel_trace.checking.context import Context, Searched
from otel_kernel_trace.checking.github import annotations_of, harmless
from otel_kernel_trace.checking.judging import JUDGES, judge
from otel_kernel_trace.checking.junit import junit_of
from otel_kernel_trace.checking.rates import likely
from otel_kernel_trace.checking.rules import TABLES, Rule, rules_in
from otel_kernel_trace.checking.searching import Log, Search
from otel_kernel_trace.fingerprint.document import text_of
from otel_kernel_trace.fingerprint.fingerprint import Fingerprint, Refusal, StageCost
from otel_kernel_trace.reader import NoTreeError, Outcome, Price, Tokens
from otel_kernel_trace.resources import KernelResources

GOOD = Fingerprint(
    "swish",
    "1",
    Outcome.PASSED,
    peak_memory_mb=2148,
    fusion_rate=0.92,
    warnings=("Unsupported plugin: CustomRoPE",),
    fusions_made=12,
    fusions_refused=1,
    fused=("MatMul_0 + Add_1 + Gelu_2",),
    refused=(Refusal("MatMul_3 + Add_4", "unsupported broadcast pattern"),),
    compile_time=3.5,
    kernels=(KernelResources("swish_kernel", "sm_90", 32, 8, 8, 16, 1024),),
    stages={"nvcc": StageCost(2.0, 300.0)},
    steps=5,
    verified=2,
    passed=1,
    first_pass=5,
    best_speedup=1.5,
    tokens=Tokens(1000, 200),
    tokens_by_model={"m": Tokens(1000, 200)},
    error_categories={"syntax": 2},
    error_signatures=("nvcc:syntax:expected a ;",),
    suspicions=("faster than the device could be",),
)
"""A task that tells everything."""
MUTE = Fingerprint("swish", "1")
"""A task that tells nothing."""
PRICES = {"m": Price(2.0, 8.0)}


def find(
    table: str,
    rule: dict[str, Any],
    *tasks: Fingerprint,
    before: tuple[Fingerprint, ...] = (),
    **more: Any,
) -> list[Finding]:
    """What one table of rules finds in tasks."""
    found = judge(rules_in({table: rule}), Context(tasks or (GOOD,), before, **more)).findings
    return [one for one in found if one.rule != "tasks.minimum" or table == "tasks"]


def one(table: str, rule: dict[str, Any], *tasks: Fingerprint, **more: Any) -> Finding:
    [found] = find(table, rule, *tasks, **more)
    return found


# (table, key, a limit that just holds, one that does not by how much, the value)
LIMITS = [
    ("speedup", "minimum", 1.5, 2.0, 1.5, "1.5x, at least 2x: 0.5x short (25 %)"),
    ("steps", "maximum", 5, 4, 5, "5, at most 4: 1 too much (25 %)"),
    ("tokens", "maximum", 1200, 1000, 1200, "1200, at most 1000: 200 too much (20 %)"),
    ("tokens", "total", 1200, 1000, 1200, "1200, at most 1000: 200 too much (20 %)"),
    ("cost", "maximum", 0.0036, 0.0030, 0.0036, "0.0036, at most 0.003: 0.0006 too much (20 %)"),
    ("cost", "total", 0.0036, 0.0030, 0.0036, "0.0036, at most 0.003: 0.0006 too much (20 %)"),
    ("cost", "for_each_pass", 0.0036, 0.0030, 0.0036, "0.0036, at most 0.003: 0.0006 too much (20 %)"),
    ("compile_time", "maximum", 3.5, 3, 3.5, "3.5 s, at most 3 s: 0.5 s too much (16.7 %)"),
    ("peak_memory", "maximum_mb", 2148, 2048, 2148, "2148 MiB, at most 2048 MiB: 100 MiB too much (4.88 %)"),
    ("stages", "maximum_seconds", 2, 1.5, 2, "nvcc: 2 s, at most 1.5 s: 0.5 s too much (33.3 %)"),
    ("stages", "maximum_mb", 300, 200, 300, "nvcc: 300 MiB, at most 200 MiB: 100 MiB too much (50 %)"),
    ("kernels", "registers", 32, 24, 32, "swish_kernel (sm_90): 32, at most 24: 8 too much (33.3 %)"),
    ("kernels", "spill_bytes", 16, 0, 16, "swish_kernel (sm_90): 16 B, at most 0 B: 16 B too much"),
    (
        "kernels",
        "shared_memory",
        1024,
        512,
        1024,
        "swish_kernel (sm_90): 1024 B, at most 512 B: 512 B too much (100 %)",
    ),
    ("kernels", "stack_frame", 16, 8, 16, "swish_kernel (sm_90): 16 B, at most 8 B: 8 B too much (100 %)"),
    (
        "fusions",
        "minimum",
        12,
        17,
        12,
        "12, at least 17: 5 short (29.4 %); refused: MatMul_3 + Add_4 unsupported broadcast pattern",
    ),
    (
        "fusions",
        "minimum_rate",
        0.92,
        1,
        0.92,
        "0.92, at least 1: 0.08 short (8 %); refused: MatMul_3 + Add_4 unsupported broadcast pattern",
    ),
    (
        "fusions",
        "maximum_refused",
        1,
        0,
        1,
        "1, at most 0: 1 too much; refused: MatMul_3 + Add_4 unsupported broadcast pattern",
    ),
    ("warnings", "maximum", 1, 0, 1, "1, at most 0: 1 too much: Unsupported plugin: CustomRoPE"),
    ("suspicions", "maximum", 1, 0, 1, "1, at most 0: 1 too much; faster than the device could be"),
    ("tasks", "minimum", 1, 2, 1, "1, at least 2: 1 short (50 %)"),
]


class TestLimits:
    @pytest.mark.parametrize(
        ("table", "key", "holds", "value"), [(t, k, h, v) for t, k, h, _, v, _ in LIMITS]
    )
    def test_a_value_equal_to_the_limit_holds(self, table: str, key: str, holds: float, value: float) -> None:
        found = one(table, {key: holds}, prices=PRICES)
        assert (found.rule, found.status) == (f"{table}.{key}", "held")
        assert found.value == pytest.approx(value)

    @pytest.mark.parametrize(("table", "key", "fails", "told"), [(t, k, f, m) for t, k, _, f, _, m in LIMITS])
    def test_and_past_it_it_is_told_by_how_much(self, table: str, key: str, fails: float, told: str) -> None:
        found = one(table, {key: fails}, prices=PRICES)
        assert (found.status, found.message, found.limit) == ("failed", told, fails)

    @pytest.mark.parametrize(
        ("table", "key", "limit"), [(t, k, f) for t, k, _, f, _, _ in LIMITS if t != "tasks"]
    )
    def test_what_the_tree_does_not_tell_does_not_pass(self, table: str, key: str, limit: float) -> None:
        [found] = find(table, {key: limit}, MUTE, prices=PRICES)
        assert (found.status, found.is_failure, found.value) == ("not measured", True, None)
        [found] = find(table, {key: limit, "optional": True}, MUTE, prices=PRICES)
        assert (found.status, found.is_failure) == ("skipped", False)

    def test_every_task_has_a_finding_of_its_own(self) -> None:
        slow = replace(GOOD, task_id="2", best_speedup=1.1)
        found = find("speedup", {"minimum": 1.2}, GOOD, slow)
        assert [(each.task_id, each.status) for each in found] == [("1", "held"), ("2", "failed")]

    def test_a_rule_may_be_for_some_ops_alone(self) -> None:
        softmax = replace(GOOD, op_name="softmax_fwd", best_speedup=1.1)
        found = find("speedup", {"minimum": 1.2, "ops": ["soft*", "norm"]}, GOOD, softmax)
        assert [(each.op_name, each.status) for each in found] == [("softmax_fwd", "failed")]
        found = find("speedup", {"minimum": 1.2, "ops": "norm"}, GOOD, softmax)
        assert [(each.op_name, each.status) for each in found] == [("", "not measured")]

    def test_and_for_some_kernels_or_stages(self) -> None:
        kernels = (KernelResources("_Z4attnv", registers=200), KernelResources("copy", registers=99))
        task = replace(GOOD, kernels=kernels)
        found = find("kernels", {"registers": 100, "names": ["*attn*"]}, task)
        assert [(each.subject, each.status) for each in found] == [("_Z4attnv", "failed")]
        none = one("kernels", {"registers": 100, "names": "softmax"}, task)
        assert none.message == "no assembler's log tells of a kernel named softmax; of 2 others it does"
        assert one("stages", {"maximum_seconds": 9, "names": "link"}).status == "not measured"

    def test_a_kernel_of_which_one_figure_is_not_told_does_not_pass(self) -> None:
        task = replace(GOOD, kernels=(KernelResources("k", spill_stores=0),))
        assert one("kernels", {"registers": 99}, task).status == "not measured"
        assert one("kernels", {"spill_bytes": 0}, task).status == "held"

    def test_a_model_without_a_price_has_no_cost(self) -> None:
        other = replace(GOOD, task_id="2", tokens_by_model={"another": Tokens(1, 1)})
        assert one("cost", {"total": 1}, GOOD, other, prices=PRICES).status == "not measured"

    def test_what_passed_costs_what_failed_too(self) -> None:
        failed = replace(GOOD, task_id="2", passed=0)
        found = one("cost", {"for_each_pass": 1}, GOOD, failed, prices=PRICES)
        assert found.value == pytest.approx(0.0072)
        assert one("cost", {"for_each_pass": 1}, failed, prices=PRICES).status == "not measured"

    def test_what_is_far_past_a_limit_is_told_in_plain_numbers(self) -> None:
        assert one("tokens", {"maximum": 1}).message == "1200, at most 1: 1199 too much (119900 %)"

    def test_huge_numbers_are_told_all_the_same(self) -> None:
        found = one("tokens", {"maximum": 10}, replace(GOOD, tokens=Tokens(10**17, 0)))
        assert found.message.startswith("100000000000000000, at most 10")


class TestFusions:
    def test_one_that_has_to_be_made(self) -> None:
        assert one("fusions", {"made": "MatMul_0 * Gelu_*"}).status == "held"
        found = one("fusions", {"made": ["*qkv*"]}, replace(GOOD, fusions_made=1))
        assert (found.status, found.subject) == ("failed", "*qkv*")
        assert "refused: MatMul_3 + Add_4 unsupported broadcast pattern" in found.message

    def test_one_that_may_be_among_those_that_are_not_named_does_not_pass(self) -> None:
        assert one("fusions", {"made": ["*qkv*"]}).status == "not measured"  # 1 of 12 is named
        assert one("fusions", {"not_refused": "*qkv*"}, replace(GOOD, refused=())).status == "not measured"

    def test_one_that_must_not_be_refused(self) -> None:
        assert one("fusions", {"not_refused": "*qkv*"}).status == "held"
        found = one("fusions", {"not_refused": "MatMul*"})
        assert found.message == "MatMul*: was refused: MatMul_3 + Add_4: unsupported broadcast pattern"

    @pytest.mark.parametrize("key", ["made", "not_refused"])
    def test_without_a_builder_none_is_known(self, key: str) -> None:
        assert one("fusions", {key: "*"}, MUTE).status == "not measured"


class TestPassRate:
    def tasks(self, passed: int, everything: int) -> list[Fingerprint]:
        outcomes = [Outcome.PASSED] * passed + [Outcome.FAILED] * (everything - passed)
        return [Fingerprint("swish", str(at), outcome) for at, outcome in enumerate(outcomes)]

    def test_tells_how_few_tasks_it_rests_on(self) -> None:
        assert one("pass_rate", {"minimum": 0.5}, *self.tasks(1, 2)).status == "held"
        found = one("pass_rate", {"minimum": 0.9}, *self.tasks(2, 3))
        assert found.status == "failed"
        assert found.message == (
            "0.6667, at least 0.9: 0.2333 short (25.9 %); "
            "2 of 3 passed, which goes with rates from 0.21 to 0.94"
        )

    def test_who_died_did_not_pass(self) -> None:
        tasks = [*self.tasks(1, 1), Fingerprint("swish", "9", Outcome.UNFINISHED)]
        assert one("pass_rate", {"minimum": 1}, *tasks).value == 0.5

    def test_a_tree_without_an_index_does_not_tell_it(self) -> None:
        assert one("pass_rate", {"minimum": 0}, MUTE).status == "not measured"

    def test_against_the_baseline(self) -> None:
        before = tuple(self.tasks(10, 10))
        assert one("pass_rate", {"may_fall": 0.1}, *self.tasks(9, 10), before=before).status == "held"
        found = one("pass_rate", {"may_fall": 0.1}, *self.tasks(8, 10), before=before)
        assert found.message == (
            "0.8, at least 0.9: 0.1 short (11.1 %); 10 of 10 passed in the baseline, 8 of 10 here; "
            "p = 0.47 of Fisher's exact test"
        )

    def test_where_only_what_is_no_chance_counts(self) -> None:
        before, rule = tuple(self.tasks(10, 10)), {"may_fall": 0, "significance": 0.05}
        found = one("pass_rate", rule, *self.tasks(8, 10), before=before)
        assert (found.status, "may well be chance" in found.message) == ("held", True)
        assert one("pass_rate", rule, *self.tasks(2, 10), before=before).status == "failed"

    def test_ops_that_are_in_one_of_them_alone_are_not_compared(self) -> None:
        before = (*self.tasks(1, 1), Fingerprint("old", "1", Outcome.FAILED))
        now = (*self.tasks(1, 1), Fingerprint("new", "1", Outcome.FAILED))
        assert one("pass_rate", {"may_fall": 0}, *now, before=before).value == 1
        assert one("pass_rate", {"may_fall": 0}, now[1], before=before).status == "not measured"

    @given(st.integers(1, 1000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
    def test_the_rates_that_a_count_goes_with_are_around_it(self, counts: tuple[int, int]) -> None:
        passed, everything = counts
        low, high = likely(passed, everything)
        assert 0 <= low <= passed / everything + 1e-12
        assert passed / everything - 1e-12 <= high <= 1

    def test_and_are_those_of_the_textbook(self) -> None:
        # statsmodels.stats.proportion.proportion_confint(8, 10, method="wilson")
        assert likely(8, 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)


def using(**more: int) -> tuple[KernelResources]:
    return (KernelResources("k", **more),)  # type: ignore[arg-type]  # by name


BASELINES: list[tuple[Any, ...]] = [
    # table, rule, field, before, the worst that holds, what does not
    ("speedup", {"may_fall": 0.1}, "best_speedup", 3.0, 2.7, 2.6),
    ("steps", {"may_grow": 0.5}, "first_pass", 4, 6, 7),
    ("tokens", {"may_grow": 0.1}, "tokens", Tokens(100), Tokens(110), Tokens(111)),
    ("compile_time", {"may_grow": 0.1}, "compile_time", 3.0, 3.3, 3.4),
    ("peak_memory", {"may_grow": 0}, "peak_memory_mb", 100.0, 100.0, 100.5),
    ("fusions", {"may_fall": 2}, "fusions_made", 12, 10, 9),
    ("fusions", {"rate_may_fall": 0.05}, "fusion_rate", 0.92, 0.87, 0.86),
    ("kernels", {"registers_may_grow": 0.25}, "kernels", *(using(registers=n) for n in (32, 40, 41))),
    ("kernels", {"spill_bytes_may_grow": 9}, "kernels", *(using(spill_loads=n) for n in (0, 0, 1))),
    ("warnings", {"no_new": True}, "warnings", ("took 3 ms",), ("took 4 ms",), ("took 4 ms", "x2")),
    ("diagnostics", {"no_new": True}, "error_signatures", ("a", "b"), ("b",), ("c",)),
]


class TestBaseline:
    @pytest.mark.parametrize(("table", "rule", "field", "before", "holds", "fails"), BASELINES)
    def test_what_may_be_and_what_may_not(
        self, table: str, rule: dict[str, Any], field: str, before: object, holds: object, fails: object
    ) -> None:
        sides = [replace(GOOD, **{field: told}) for told in (before, holds, fails)]  # type: ignore[arg-type]  # by name
        assert one(table, rule, sides[1], before=(sides[0],)).status == "held"
        found = one(table, rule, sides[2], before=(sides[0],))
        assert (found.status, found.op_name, found.task_id) == ("failed", "swish", "")
        assert found.difference is not None

    def test_says_what_the_baseline_has(self) -> None:
        found = one(
            "speedup",
            {"may_fall": 0.1},
            replace(GOOD, best_speedup=2.0),
            before=(replace(GOOD, best_speedup=4.0),),
        )
        assert found.message == "2x, at least 3.6x: 1.6x short (44.4 %); the baseline has 4"
        assert found.difference == pytest.approx(-1.6)
        assert found.share == pytest.approx(-1.6 / 3.6)

    @pytest.mark.parametrize(("table", "rule"), [row[:2] for row in BASELINES])
    def test_a_new_op_has_nothing_to_fall_from(self, table: str, rule: dict[str, Any]) -> None:
        found = one(table, rule, GOOD, before=())
        assert (found.status, found.message) == ("skipped", "new: the baseline has no such op")

    @pytest.mark.parametrize(("table", "rule"), [row[:2] for row in BASELINES])
    def test_an_op_that_is_gone_does_not_pass(self, table: str, rule: dict[str, Any]) -> None:
        found = find(table, rule, GOOD, before=(GOOD, replace(GOOD, op_name="gone")))
        assert [each.status for each in found if each.op_name == "gone"] == ["not measured"]

    @pytest.mark.parametrize(("table", "rule"), [row[:2] for row in BASELINES])
    def test_nor_one_that_does_not_tell_any_more(self, table: str, rule: dict[str, Any]) -> None:
        assert one(table, rule, MUTE, before=(GOOD,)).status == "not measured"

    @pytest.mark.parametrize(("table", "rule"), [row[:2] for row in BASELINES if "no_new" not in row[1]])
    def test_a_baseline_that_does_not_tell_has_nothing_to_compare_with(
        self, table: str, rule: dict[str, Any]
    ) -> None:
        assert one(table, rule, GOOD, before=(MUTE,)).status == "skipped"

    def test_an_op_may_not_be_missing(self) -> None:
        gone = replace(GOOD, op_name="gone")
        found = find("tasks", {"no_op_missing": True}, GOOD, before=(GOOD, gone))
        told = [(each.op_name, each.status) for each in found if each.rule == "tasks.no_op_missing"]
        assert told == [("swish", "held"), ("gone", "failed")]


class TestDiagnostics:
    def test_categories(self) -> None:
        assert one("diagnostics", {"forbidden_categories": ["crash", "timeout"]}).status == "held"
        assert one("diagnostics", {"allowed_categories": ["syntax"]}).status == "held"
        for rule in ({"forbidden_categories": "syntax"}, {"allowed_categories": "crash"}):
            found = one("diagnostics", rule)
            assert (found.status, found.value) == ("failed", 2)
            assert found.message == "errors of categories that may not be: syntax 2"

    def test_signatures(self) -> None:
        assert one("diagnostics", {"forbidden_signatures": "undefined"}).status == "held"
        found = one("diagnostics", {"forbidden_signatures": ["EXPECTED A"]})
        assert (found.status, found.message) == ("failed", "errors that may not be: nvcc:syntax:expected a ;")

    @pytest.mark.parametrize(
        "rule",
        [{"forbidden_categories": "crash"}, {"allowed_categories": "syntax"}, {"forbidden_signatures": "?"}],
    )
    def test_a_failure_that_no_diagnostic_explains_does_not_pass(self, rule: dict[str, Any]) -> None:
        found = one("diagnostics", rule, replace(GOOD, undiagnosed=1))
        assert (found.status, found.message) == (
            "not measured",
            "1 verification failed, and no diagnostic says why",
        )
        assert one("diagnostics", rule, MUTE).status == "not measured"


class TestMessages:
    def search(
        self, *texts: str, forbidden: tuple[str, ...] = (), patterns: tuple[str, ...] = ()
    ) -> Searched:
        with Search(forbidden, patterns, seconds=30) as search:
            return search.search([Log(text, f"log{at}") for at, text in enumerate(texts)])

    def test_are_found_in_whatever_case_with_the_place_of_the_first(self) -> None:
        text = "[I] fine\n[W] Cannot fuse MatMul_3\n[W] CANNOT FUSE Add"
        [seen] = self.search("nothing", text, forbidden=("cannot fuse", "cannot fly")).sightings
        assert (seen.times, seen.text, seen.file, seen.line) == (2, "[W] Cannot fuse MatMul_3", "log1", 2)

    def test_are_found_where_small_letters_are_longer_than_large_ones(self) -> None:
        [seen] = self.search("İİİ\nİİ cannot", forbidden=("CANNOT",)).sightings
        assert (seen.line, seen.text) == (2, "İİ cannot")

    def test_patterns_are_regular_expressions(self) -> None:
        patterns = (r"tactic \d+$", "^x")
        [seen] = self.search("[I] x\nskipping tactic 33\ntactic 33 was", patterns=patterns).sightings
        assert (seen.message, seen.is_pattern, seen.times, seen.line) == (r"tactic \d+$", True, 1, 2)

    def test_patterns_look_at_the_beginning_of_a_line_and_texts_at_all_of_it(self) -> None:
        line = "x" * 2000 + "END"
        found = self.search(line, forbidden=("end",), patterns=("END",)).sightings
        assert [(seen.is_pattern, len(seen.text)) for seen in found] == [(False, 200)]

    def test_a_pattern_that_would_take_for_ever_is_given_up_and_the_others_are_not(self) -> None:
        hostile = [Log("a" * 60 + "!\nfound", "log")]
        with Search((), ("(a+)+$", "found"), seconds=4) as search:
            searched = [search.search(hostile) for _ in range(2)]  # the second time it is not tried again
        for each in searched:
            assert [seen.message for seen in each.sightings] == ["found"]
            assert each.unread == ("pattern '(a+)+$' took too long on a log and was given up",)

    def test_halves_of_characters_and_nul_are_no_trouble(self) -> None:
        found = self.search("\ud800\0 bad\n", forbidden=("bad",), patterns=("b.d",)).sightings
        assert [seen.text for seen in found] == ["\ud800\0 bad"] * 2

    def test_a_rule_that_finds_one_fails_where_it_is(self) -> None:
        searched = self.search("an illegal memory access", forbidden=("illegal", "legal tender"))
        rule = {"forbidden": ["illegal", "legal tender"]}
        failed, held = find("messages", rule, searched={("swish", "1"): searched})
        assert (failed.status, failed.file, failed.line, failed.value) == ("failed", "log0", 1, 1)
        assert failed.message == "illegal: in 1 line, the first: an illegal memory access"
        assert (held.status, held.message) == ("held", "legal tender: in none of 1 logs")

    def test_a_text_and_a_pattern_that_look_alike_are_two_rules(self) -> None:
        searched = self.search("a.b", "aXb", forbidden=("a.b",), patterns=("a.b",))
        rule = {"forbidden": "a.b", "forbidden_patterns": "a.b"}
        assert [each.value for each in find("messages", rule, searched={("swish", "1"): searched})] == [1, 2]

    def test_a_log_that_can_not_be_read_does_not_pass(self) -> None:
        searched = replace(self.search("fine"), unread=("log x can't be read: No such file or directory",))
        found = find("messages", {"forbidden": "bad"}, searched={("swish", "1"): searched})
        assert [each.status for each in found] == ["not measured", "held"]

    def test_nor_a_task_without_a_log_nor_a_fingerprint(self) -> None:
        rule = {"forbidden": "bad"}
        assert one("messages", rule, MUTE, searched={("swish", "1"): Searched()}).status == "not measured"
        assert one("messages", rule, GOOD).message == "a fingerprint has no logs; check the tree itself"


class TestRules:
    def test_every_rule_has_who_judges_it(self) -> None:
        assert set(JUDGES) == {f"{table}.{key}" for table, keys in TABLES.items() for key in keys}

    def test_several_tables_of_a_name_are_several_rules(self) -> None:
        rules = rules_in({"speedup": [{"minimum": 1, "ops": "a"}, {"minimum": 2, "optional": True}]})
        assert [(rule.limit, rule.ops, rule.is_optional) for rule in rules] == [
            (1, ("a",), False),
            (2, ("*",), True),
        ]

    @pytest.mark.parametrize(
        ("table", "rule", "told"),
        [
            ("kernels", {"spil_bytes": 0}, "[kernels] spil_bytes: unknown; did you mean spill_bytes?"),
            ("kernel", {"registers": 0}, "[kernel]: unknown; did you mean kernels?"),
            ("speedup", {"qqq": 1}, "unknown; there are: minimum, may_fall, ops, optional"),
            ("speedup", {"significance": 0.1, "minimum": 1}, "[speedup] significance: unknown"),
            ("speedup", 3, "[speedup]: a table was expected, not 3"),
            ("speedup", [3], "[[speedup]] 1: a table was expected, not 3"),
            ("speedup", {"minimum": math.nan}, "a number was expected, not nan"),
            ("speedup", {"minimum": math.inf}, "a number from 0 to 1e+15 was expected, not inf"),
            ("speedup", {"minimum": -1}, "a number from 0 to 1e+15 was expected, not -1"),
            ("speedup", {"minimum": 10**400}, "a number from 0 to 1e+15 was expected, not 1000"),
            ("speedup", {"minimum": True}, "a number was expected, not True"),
            ("speedup", {"minimum": "1.2"}, "a number was expected, not '1.2'"),
            ("speedup", {"minimum": 1, "optional": 1}, "true or false was expected, not 1"),
            ("speedup", {"ops": ["a"]}, "[speedup]: there is no rule in it"),
            ("speedup", {"minimum": 1, "ops": []}, "a list of texts was expected"),
            ("speedup", {"minimum": 1, "ops": [""]}, "a list of texts was expected, none of them empty"),
            ("steps", {"maximum": 1.5}, "a whole number was expected, not 1.5"),
            ("pass_rate", {"minimum": 95}, "a share from 0 to 1 was expected (0.05 is 5 %), not 95"),
            ("messages", {"forbidden": "a\nb"}, "has a line break, and only lines are looked at"),
            ("messages", {"forbidden_patterns": "("}, "'(' is no regular expression: missing )"),
            ("diagnostics", {"forbidden_categories": "crush"}, "unknown; did you mean crash?"),
            ("warnings", {"no_new": False}, "[warnings]: there is no rule in it"),
        ],
    )
    def test_what_is_wrong_is_told_with_its_place(self, table: str, rule: object, told: str) -> None:
        with pytest.raises(RulesError, match=re.escape(told)):
            rules_in({table: rule})

    def test_all_that_is_wrong_is_told_with_the_lines_of_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "rules.toml"
        path.write_text(
            '# rules\n[steps] # all\nmaximum = "x"\n[[kernels]]\nregisters = 1\n[[kernels]]\nregister = 1\n'
        )
        with pytest.raises(RulesError) as raised:
            check_log_health(tmp_path, path)
        assert str(raised.value).splitlines() == [
            f"{path}:3: [steps] maximum: a whole number was expected, not 'x'",
            f"{path}:7: [[kernels]] 2 register: unknown; did you mean registers?",
        ]

    def test_an_empty_file_is_wrong(self, tmp_path: Path) -> None:
        (tmp_path / "rules.toml").write_text("")
        with pytest.raises(RulesError, match="there is no rule in it"):
            check_log_health(tmp_path, tmp_path / "rules.toml")

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("rules.toml", "[kernels"),
            ("rules.toml", "\0"),
            ("rules.json", "{"),
            ("rules.json", "[]"),
            ("rules.json", "[" * 9999),
        ],
    )
    def test_what_can_not_be_read_is_told(self, name: str, text: str, tmp_path: Path) -> None:
        (tmp_path / name).write_text(text)
        with pytest.raises(RulesError, match=re.escape(str(tmp_path / name))):
            check_log_health(tmp_path, tmp_path / name)

    def test_rules_may_be_json(self, tmp_path: Path) -> None:
        (tmp_path / "rules.json").write_text('{"tasks": {"minimum": 0}}')
        (tmp_path / "tree").mkdir()
        assert check_log_health(tmp_path / "tree", tmp_path / "rules.json").is_healthy

    def test_rules_that_compare_or_cost_want_what_they_need(self, tmp_path: Path) -> None:
        with pytest.raises(
            RulesError, match=re.escape("[speedup] may_fall compares, and no baseline is given")
        ):
            check_log_health(tmp_path, {"speedup": {"may_fall": 0.1}})
        with pytest.raises(RulesError, match=re.escape("[cost] total needs prices, and none are given")):
            check_log_health(tmp_path, {"cost": {"total": 1}})

    def test_that_is_told_with_the_line_of_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "rules.toml"
        path.write_text("[speedup]\nminimum = 1\nmay_fall = 0.1\n")
        with pytest.raises(RulesError, match=re.escape(f"{path}:3: [speedup] may_fall compares")):
            check_log_health(tmp_path, path)

    def test_a_name_with_line_breaks_is_told_in_one_line(self) -> None:
        with pytest.raises(RulesError) as raised:
            check_log_health("", {"a\n::error::b": {}})
        assert "\n" not in str(raised.value)
        with pytest.raises(RulesError) as raised:
            check_log_health("", {"tasks": {"a\n::error::b": 1}})
        assert "\n" not in str(raised.value)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
            lambda inner: (
                st.lists(inner) | st.dictionaries(st.sampled_from(["minimum", "ops", "names", "x"]), inner)
            ),
        )
    )
    def test_whatever_is_given_is_rules_or_is_told(self, told: object) -> None:
        for table in TABLES:
            with contextlib.suppress(RulesError):
                assert all(isinstance(rule, Rule) for rule in rules_in({table: told}))


@dataclass
class Logger:
    """As the document's ``TracingLogger``: it counts fusions and keeps warnings."""

    fusion_count: int
    warnings: list[str]


@dataclass
class Summary:
    """As a ``BuilderSummary``."""

    fusion_rate: float = 0.5
    fusions_refused: int = 3
    peak_memory: int = 892 * 1024 * 1024
    engine_time: float | None = None


@dataclass
class LoggerWithSummary(Logger):
    summary: Summary


RULES = {"fusions": {"minimum": 12}, "messages": {"forbidden": ["cannot fuse"]}}


class TestABuildersLogger:
    def test_a_healthy_one(self) -> None:
        health = check_log_health(Logger(12, ["Unsupported plugin: CustomRoPE"]), RULES)
        assert health.is_healthy
        health.raise_for_failures()

    def test_a_fusion_regression_raises_as_in_the_document(self) -> None:
        health = check_log_health(Logger(7, ["Cannot fuse MatMul_3 + Add_4: unsupported broadcast"]), RULES)
        with pytest.raises(RuntimeError) as raised:
            health.raise_for_failures()
        assert isinstance(raised.value, UnhealthyError)
        assert str(raised.value).splitlines() == [
            "builder log: fusions.minimum: 7, at least 12: 5 short (41.7 %)",
            "builder log: messages.forbidden: cannot fuse: in 1 line, the first: "
            "Cannot fuse MatMul_3 + Add_4: unsupported broadcast",
        ]

    def test_against_another_one(self) -> None:
        rules = {"warnings": {"no_new": True}, "fusions": {"may_fall": 0}}
        health = check_log_health(Logger(11, ["new"]), rules, baseline=Logger(12, []))
        assert [(each.rule, each.value) for each in health.failures] == [
            ("warnings.no_new", 1),
            ("fusions.may_fall", 11),
        ]

    def test_with_a_summary_it_tells_more(self) -> None:
        rules = {
            "fusions": {"minimum_rate": 0.5, "maximum_refused": 3},
            "peak_memory": {"maximum_mb": 892},
            "compile_time": {"maximum": 1, "optional": True},
        }
        health = check_log_health(LoggerWithSummary(3, [], Summary()), rules)
        assert health.is_healthy
        assert health.counts == {"held": 4, "skipped": 1}

    def test_what_is_none_is_told(self) -> None:
        with pytest.raises(
            TypeError, match=re.escape("a logger with fusion_count and warnings was expected, not 3")
        ):
            check_log_health(3, RULES)  # type: ignore[arg-type]  # that is what is wrong


class TestATree:
    @pytest.fixture
    def log_dir(self, tmp_path: Path) -> Path:
        """A task that passed at its third step."""
        trace = Trace("swish", "1", tmp_path / "tree")
        trace.insert_designer_or_coder_record("r", "illegal in a prompt", "t", ActionType.DO_CODER)
        trace.insert_verifier_record("False", "compiling\nCUDA error: an illegal memory access", "")
        trace.insert_verifier_record("True", "", '{"speedup": 1.5}')
        return tmp_path / "tree"

    def test_is_checked_from_its_files(self, log_dir: Path) -> None:
        rules = {"speedup": {"minimum": 1.2}, "steps": {"maximum": 3}, "pass_rate": {"minimum": 1}}
        assert check_log_health(log_dir, rules).is_healthy

    def test_a_message_is_shown_where_it_is(self, log_dir: Path) -> None:
        health = check_log_health(
            log_dir, {"messages": {"forbidden": "illegal", "forbidden_patterns": "^CUDA error"}}
        )
        places = [(each.file, each.line, each.task_id) for each in health.failures]
        assert places == [("swish/I1_S02_swish_VERIFY_error_log.txt", 2, "1")] * 2

    def test_a_log_that_is_gone_does_not_pass(self, log_dir: Path) -> None:
        (log_dir / "swish" / "I1_S02_swish_VERIFY_error_log.txt").unlink()
        [failure] = check_log_health(log_dir, {"messages": {"forbidden": "illegal"}}).failures
        assert failure.status == "not measured"
        assert "VERIFY_error_log.txt can't be read" in failure.message

    def test_a_baseline_may_be_a_tree_or_a_file(self, log_dir: Path, tmp_path: Path) -> None:
        (tmp_path / "before.json").write_text(text_of([replace(GOOD, best_speedup=2.0, first_pass=2)]))
        rules = {"speedup": {"may_fall": 0}}
        assert check_log_health(log_dir, rules, baseline=log_dir).is_healthy
        [failure] = check_log_health(log_dir, rules, baseline=tmp_path / "before.json").failures
        assert (failure.value, failure.limit) == (1.5, 2.0)

    def test_a_file_of_fingerprints_may_be_checked_but_for_its_logs(self, tmp_path: Path) -> None:
        (tmp_path / "now.json").write_text(text_of([GOOD]))
        rules = {"speedup": {"minimum": 1.2}, "messages": {"forbidden": "x"}}
        assert [each.rule for each in check_log_health(tmp_path / "now.json", rules).failures] == [
            "messages.forbidden"
        ]

    def test_an_empty_tree_fails(self, tmp_path: Path) -> None:
        health = check_log_health(tmp_path, {"warnings": {"maximum": 9, "optional": True}})
        assert [(each.rule, each.message) for each in health.failures] == [
            ("tasks.minimum", "0, at least 1: 1 short (100 %)")
        ]

    def test_an_empty_baseline_is_an_error(self, log_dir: Path, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        with pytest.raises(NoTreeError):
            check_log_health(log_dir, {"speedup": {"may_fall": 0}}, baseline=tmp_path / "empty")

    def test_cost_with_prices(self, tmp_path: Path) -> None:
        (tmp_path / "now.json").write_text(text_of([GOOD]))
        health = check_log_health(tmp_path / "now.json", {"cost": {"total": 0.001}}, prices=PRICES)
        assert [each.value for each in health.failures] == [pytest.approx(0.0036)]


def test_nothing_is_not_healthy() -> None:
    assert not Health((), 0).is_healthy
    with pytest.raises(UnhealthyError, match="nothing was checked"):
        Health((), 0).raise_for_failures()


HOSTILE = "::error::x ##[stop-commands]t\r\n% \x1b[31m\0\ufffe\ud800<&>\"',:]]>"


class TestJunit:
    def read(self, *findings: Finding) -> ElementTree.Element:
        return ElementTree.fromstring(junit_of(Health(findings, 1)))

    def test_a_suite_for_every_task_and_a_case_for_every_finding(self) -> None:
        root = self.read(
            Finding("tasks.minimum", "held", "1, at least 1"),
            Finding("speedup.minimum", "failed", "too slow", "swish", "1"),
            Finding("messages.forbidden", "failed", "bad", "swish", "1", "bad", file="f.txt", line=3),
            Finding("kernels.registers", "not measured", "no log", "swish", "1", "k"),
            Finding("kernels.registers", "skipped", "optional", "swish", "1", "l"),
        )
        assert root.attrib == {
            "name": "otel-kernel-trace check",
            "tests": "5",
            "failures": "3",
            "errors": "0",
        }
        assert [
            (suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("skipped"))
            for suite in root
        ] == [
            ("all tasks", "1", "0", "0"),
            ("swish · 1", "4", "3", "1"),
        ]
        failures = [(each.get("type"), each.get("message"), each.text) for each in root.iter("failure")]
        assert failures == [
            ("failed", "too slow", "too slow"),
            ("failed", "bad", "bad\nf.txt:3"),
            ("not measured", "no log", "no log"),
        ]
        assert [case.get("name") for case in root.iter("testcase")][-1] == "kernels.registers l"
        assert [each.get("message") for each in root.iter("skipped")] == ["optional"]

    def test_keeps_to_the_common_schema(self) -> None:
        # Attributes of https://github.com/jenkinsci/xunit-plugin, junit-10.xsd.
        allowed = {
            "testsuites": {"name", "time", "tests", "failures", "errors"},
            "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
            "testcase": {"name", "classname", "time"},
            "failure": {"type", "message"},
            "skipped": {"type", "message"},
        }
        root = self.read(*(Finding("r", status, "m", "o", "t") for status in ("held", "failed", "skipped")))
        for element in root.iter():
            assert set(element.attrib) <= allowed[element.tag]

    @given(st.text())
    def test_whatever_the_names_it_is_read_back(self, name: str) -> None:
        for text in (name, HOSTILE):
            root = self.read(Finding("r", "failed", text, text, text, text))
            [suite] = root
            shown = re.sub(
                "[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", lambda c: ascii(c[0])[1:-1], text
            )
            assert suite.get("name") == (f"{shown} · {shown}" if shown else "all tasks")

    def test_no_finding_makes_a_document_too(self) -> None:
        assert list(self.read()) == []


class TestGithub:
    def test_at_the_log_that_shows_it_or_at_the_rule(self) -> None:
        health = Health(
            (
                Finding("speedup.minimum", "failed", "50 % short", "swish", "1", rule_line=7),
                Finding(
                    "messages.forbidden", "failed", "bad: bad, bad", "a,b:c", "1", file="a/log.txt", line=3
                ),
                Finding("kernels.registers", "not measured", "no\r\nlog", rule_line=0),
                Finding("steps.maximum", "held", "fine"),
            ),
            1,
        )
        assert annotations_of(health, "logs/", "ci/rules.toml") == [
            "::error file=ci/rules.toml,line=7,title=speedup.minimum failed::swish · 1: 50 %25 short",
            "::error file=logs/a/log.txt,line=3,title=messages.forbidden failed::a,b:c · 1: bad: bad, bad",
            "::error file=ci/rules.toml,line=1,title=kernels.registers not measured::all tasks: no%0D%0Alog",
        ]

    def test_names_of_files_end_no_property(self) -> None:
        health = Health((Finding("r", "failed", "m", file="a,line=9::x%\n.txt", line=3),), 1)
        [line] = annotations_of(health, "C:,logs", "r")
        assert (
            line == "::error file=C%3A%2Clogs/a%2Cline=9%3A%3Ax%25%0A.txt,line=3,title=r failed::all tasks: m"
        )

    def test_texts_are_no_commands(self) -> None:
        assert harmless("  ::error::x") == "|   ::error::x"
        assert harmless("log ##[add-mask]x ##[group]") == "log ## [add-mask]x ## [group]"
        assert harmless("a::b") == "a::b"

    @given(st.text(alphabet="#[: \t\u2003x]"))
    def test_whatever_they_are(self, text: str) -> None:
        shown = harmless(text)
        assert "##[" not in shown
        assert not shown.lstrip().startswith("::")


def test_findings_are_plain_data() -> None:
    found = one("speedup", {"minimum": 2})
    assert json.dumps([found.value, found.limit, found.unit]) == '[1.5, 2, "x"]'
