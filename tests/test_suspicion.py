"""Hints at what kernel generators are known to do."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_kernel_trace.suspicion import KINDS, Suspicion, decode, encode, suspicions_of
from tests.kernels import dishonest, honest
from tests.kernels.dishonest import Trick

REPLIES = Path(__file__).parent.parent / "examples/kernel_generation/scripted_replies"


def _kinds(*given: str, **more: str) -> set[str]:
    return {one.kind for one in suspicions_of(*given, **more)}


class TestHonestKernels:
    @pytest.mark.parametrize("name", honest.ALL)
    def test_are_not_suspected(self, name: str) -> None:
        source, impl_type = honest.ALL[name]
        profile = json.dumps({"base_time_us": 30, "gen_time_us": 20, "speedup": 1.5})
        assert suspicions_of(profile, source, framework="torch", impl_type=impl_type) == ()

    @pytest.mark.parametrize("path", sorted(REPLIES.glob("*.py")), ids=lambda path: path.name)
    def test_nor_those_of_the_example(self, path: Path) -> None:
        assert suspicions_of("", path.read_text(), framework="numpy", impl_type="numba") == ()

    @pytest.mark.parametrize("name", honest.ALL)
    def test_nor_where_they_do_not_parse(self, name: str) -> None:
        source, impl_type = honest.ALL[name]
        found = _kinds("", source.replace("return out", "return out )"), impl_type=impl_type)
        assert found <= {"library_call", "other_stream"}  # what tests do is not told apart there

    def test_nor_sources_of_a_language_without_rules(self) -> None:
        assert suspicions_of("", "fn main() { torch.matmul }", impl_type="rust") == ()
        assert suspicions_of("", "import torch\n\ndef f(x):\n    return torch.matmul(x, x)\n") == ()


class TestTricks:
    @pytest.mark.parametrize("trick", dishonest.ALL, ids=lambda trick: f"{trick.kind}: {trick.line}")
    def test_are_named_with_their_line(self, trick: Trick) -> None:
        found = suspicions_of("", trick.source, framework="torch", impl_type=trick.impl_type)
        assert trick.kind in {one.kind for one in found}
        one = next(one for one in found if one.kind == trick.kind)
        if trick.line:
            assert one.line is not None
            # An "except", a decorator or a signature may stand in the line beside it.
            lines = trick.source.split("\n")
            assert any(trick.line in line for line in lines[max(one.line - 2, 0) : one.line + 1])
            assert one.evidence == lines[one.line - 1].strip()

    @pytest.mark.parametrize("trick", dishonest.ALL, ids=lambda trick: f"{trick.kind}: {trick.line}")
    def test_the_words_are_those_of_a_hint(self, trick: Trick) -> None:
        for one in suspicions_of("", trick.source, impl_type=trick.impl_type):
            assert one.reason.endswith(".")
            assert not any(word in one.reason.lower() for word in ("cheat", "fraud", "hack", "proves"))

    def test_every_kind_is_tried(self) -> None:
        timing = {
            "zero_time",
            "below_launch",
            "beyond_device",
            "implausible_speedup",
            "contradicting_speedup",
        }
        assert {trick.kind for trick in dishonest.ALL} | timing | {"copied_reference"} == set(KINDS)

    def test_a_function_that_is_the_references_own(self) -> None:
        reference = "import numpy as np\n\ndef reference(x):\n    return x / (1 + np.exp(-x))\n"
        kernel = (
            "import numpy as np\nfrom numba import njit\n\ndef kernel(x):\n    return x / (1 + np.exp(-x))\n"
        )
        assert "copied_reference" in _kinds("", kernel, reference, impl_type="numba")
        compiled = kernel.replace("def kernel", "@njit\ndef kernel")
        assert _kinds("", compiled, reference, impl_type="numba") == set()

    def test_a_source_that_does_not_parse_is_looked_at_all_the_same(self) -> None:
        source = "import torch\nimport time\n\ndef forward(x:\n  y = torch.matmul(x, x)\ntime.time = print\n"
        assert {"library_call", "patched_checker"} <= _kinds("", source, impl_type="triton")

    def test_what_stands_in_comments_and_texts_is_nothing(self) -> None:
        source = (
            'import torch\nimport triton\n# torch.matmul(x)\nS = """\ntorch.cuda.Stream()\n"""\n'
            "@triton.jit\ndef k(x):\n    x[0] = 1  # torch.softmax(x)\n\n"
            "def f(x):\n    k[(1,)](x)\n    return x\n"
        )
        assert suspicions_of("", source, impl_type="triton") == ()


class TestTiming:
    @pytest.mark.parametrize(
        ("profile", "kinds"),
        [
            ({"gen_time_us": 0, "base_time_us": 5}, {"zero_time"}),
            ({"gen_time_us": 0.2, "base_time_us": 1}, {"below_launch"}),
            ({"gen_time_us": 2, "base_time_us": 3}, set()),
            ({"speedup": 104.0}, {"implausible_speedup"}),
            ({"speedup": 9.0}, set()),
            ({"speedup": 5.0, "base_time_ms": 2, "gen_time_ms": 1}, {"contradicting_speedup"}),
            ({"speedup": 2.05, "base_time_ms": 2, "gen_time_ms": 1}, set()),
            # 1 GiB at 3.35 TB/s takes 320 µs.
            ({"gen_time_us": 100, "bytes_moved": 2**30, "peak_bandwidth_gbps": 3350}, {"beyond_device"}),
            ({"gen_time_us": 400, "bytes_moved": 2**30, "peak_bandwidth_gbps": 3350}, set()),
            ({"gen_time_us": 10, "base_time_us": 500, "flop_count": 1e9, "peak_tflops": 900}, set()),
            ({"runtime": 0.004, "metadata": {"sol_bound_ms": 0.00524}}, {"beyond_device"}),
            ({}, set()),
        ],
        ids=range(12),
    )  # fmt: skip
    def test_of_a_kernel_on_a_device(self, profile: dict[str, object], kinds: set[str]) -> None:
        source, impl_type = honest.ALL["a softmax in Triton"]
        assert _kinds(json.dumps(profile), source, framework="torch", impl_type=impl_type) == kinds

    def test_a_processor_has_no_launch_and_numpy_may_be_slow(self) -> None:
        profile = json.dumps({"gen_time_ns": 300, "base_time_ns": 9000})
        assert _kinds(profile, honest.NUMBA, framework="numpy", impl_type="numba") == set()

    def test_a_rule_of_thumb_says_that_it_is_one(self) -> None:
        [one] = suspicions_of('{"speedup": 500}', framework="torch", impl_type="cuda")
        assert "rule of thumb" in one.reason
        assert one.evidence == "500x"

    def test_a_unit_that_was_assumed_is_told(self) -> None:
        [one] = suspicions_of('{"gen_time": 0.5, "base_time": 1}', framework="torch", impl_type="cuda")
        assert (one.confidence, "names no unit" in one.reason) == ("low", True)


class TestTheAttribute:
    def test_there_and_back(self) -> None:
        found = suspicions_of('{"speedup": 500}', dishonest.ALL[0].source, impl_type="triton")
        assert len(found) > 1
        assert decode(encode(found)) == found

    def test_lone_surrogates_and_nul(self) -> None:
        one = Suspicion("hard_coded", "a\ud800b\0.", 3, "x\udfff")
        assert encode([one]).encode("ascii")
        assert decode(encode([one])) == (one,)

    @pytest.mark.parametrize(
        "text",
        ["", "{}", "[1, null, {}]", '[{"kind": "no such", "reason": "x"}]', "[" * 100_000, None, 7, "[{"],
        ids=range(8),
    )
    def test_what_is_none_is_passed_over(self, text: object) -> None:
        assert decode(text) == ()

    def test_fields_of_other_types_are_passed_over(self) -> None:
        text = '[{"kind": "no_kernel", "reason": "r", "line": true, "evidence": 3, "confidence": "sure"}]'
        assert decode(text) == (Suspicion("no_kernel", "r"),)


class TestHostileSources:
    @settings(max_examples=100, deadline=None)
    @given(st.text(max_size=300), st.sampled_from(["triton", "cuda", "numba", ""]))
    def test_any_text(self, text: str, impl_type: str) -> None:
        for one in suspicions_of(text, text, text, framework=text, impl_type=impl_type):
            assert one.kind in KINDS

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_any_piece_of_a_kernel(self, data: st.DataObject) -> None:
        trick = data.draw(st.sampled_from(dishonest.ALL))
        begin = data.draw(st.integers(0, len(trick.source)))
        end = data.draw(st.integers(begin, len(trick.source)))
        suspicions_of("", trick.source[begin:end], trick.source, impl_type=trick.impl_type)

    @pytest.mark.parametrize(
        "source",
        [
            "(" * 1_000_000,
            "-" * 1_000_000 + "1",
            "x = a" + ".b" * 300_000,
            "x = a" + ".b" * 100_000,
            "x = f'{a" + ".b" * 100_000 + "}'",
            "if a:\n  pass\n" + "elif a:\n  pass\n" * 20_000,
            "\n".join(" " * n + "if a:" for n in range(1000)),
            '"' * 1_000_000,
            "'''" + "\\" * 1_000_000,
            "__global__ " * 90_000,
            "__global__ void f(int x) { " * 40_000,
            "/*" * 500_000,
            "catch (" * 140_000,
            "#include <x>\n" + "catch (...) { " * 70_000,
            "def f(x):\n    return x\n\n" * 10_000,
            "@triton.jit\ndef k(x):\n    pass\n\n" * 10_000,
            "import torch\n" + "torch.matmul(a, b)\n" * 50_000,
            "a." * 500_000,
            "import torch\nx = [" + "1.0, " * 200_000 + "]",
            "try:\n    a()\nexcept E:\n    b()\n" * 8_000,
            "\r\n\0\ud800" * 100_000,
            "١if x:\n  pass\n1if x else 2\n" + "x = '\\d'\n",
            "".join(f"def f{n}(x):\n    return f{n + 1}(x)\n" for n in range(9_000)),
        ],
        ids=range(23),
    )
    @pytest.mark.filterwarnings("error")
    def test_of_a_megabyte(self, source: str) -> None:
        """They are examined in seconds; where a rule is not linear, this one takes hours."""
        for impl_type in ("triton", "cuda"):
            found = suspicions_of("", source, source, framework="torch", impl_type=impl_type)
            assert len(found) <= 5 * len(KINDS)

    def test_on_a_stack_that_is_nearly_full(self) -> None:
        script = """
            import sys
            from otel_kernel_trace.suspicion import suspicions_of
            from tests.kernels import dishonest

            def deep(n):
                if n:
                    return deep(n - 1)
                return suspicions_of("", dishonest.ALL[0].source, impl_type="triton")

            deep(0)
            for room in range(60, 400, 20):
                deep(sys.getrecursionlimit() - room)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr[-500:]
