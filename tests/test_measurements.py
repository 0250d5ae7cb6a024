"""What profiles of real programs say, in one form."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_kernel_trace.assessment import Assessment, Correctness, assess
from otel_kernel_trace.diagnostics.model import Diagnostic
from otel_kernel_trace.measurements import Measurement, measurement_in, measurement_of, profile_in, speedup_in
from otel_kernel_trace.method import Method
from otel_kernel_trace.suspicion import Suspicion

AIKG = '{"gen_time": 12.5, "base_time": 25.0, "speedup": 2.0, "unique_dir": "I1_S03_verify"}'
LINES_OF_AIKG = "orig performance is 25.00 us\naikg performance is 12.50 us\nspeedup is 2.00x"
KERNEL_BENCH = json.dumps(
    {
        "compiled": True,
        "correctness": True,
        "runtime": 0.02,
        "runtime_stats": {"mean": 0.02, "std": 0.001, "min": 0.018, "max": 0.023, "num_trials": 100},
        "ref_runtime": 0.03,
        "ref_runtime_stats": {"mean": 0.03, "num_trials": 100},
        "metadata": {
            "hardware": "NVIDIA H100",
            "num_warmup": 10,
            "correctness_trials": "(5 / 5)",
            "max_difference": ["0.0001", "0.0003"],
            "l2_clear_size": 402653184,
        },
    }
)
FLASHINFER_BENCH = json.dumps(
    {
        "definition": "gqa_paged_decode_h32_kv8_d128_ps1",
        "evaluation": {
            "status": "PASSED",
            "environment": {"hardware": "NVIDIA_H100", "libs": {"torch": "2.8"}},
            "correctness": {"max_relative_error": 0.001, "max_absolute_error": 0.0001},
            "performance": {"latency_ms": 0.5, "reference_latency_ms": 1.0, "speedup_factor": 2.0},
        },
    }
)
EXAMPLE = json.dumps(
    {
        "base_time_us": 10.0,
        "gen_time_us": 5.0,
        "speedup": 2.0,
        "method": "median of 9 runs after 2 to warm up, time.perf_counter, float32 ((1024,),), NumPy 2.2.6",
    }
)
TEXT = (
    "base time: 3.1 ms, generated time: 2.5 ms, 20 warmups, mean of 50 iterations, CUDA events, synchronized"
)


class TestWhatWasMeasured:
    @pytest.mark.parametrize(
        ("profile", "base", "generated", "speedup"),
        [
            (AIKG, 25e-6, 12.5e-6, 2.0),
            (KERNEL_BENCH, 30e-6, 20e-6, 1.5),
            (FLASHINFER_BENCH, 1e-3, 0.5e-3, 2.0),
            (EXAMPLE, 10e-6, 5e-6, 2.0),
            (TEXT, 3.1e-3, 2.5e-3, 1.24),
            (LINES_OF_AIKG, 25e-6, 12.5e-6, 2.0),
            ("[1:swish] 性能分析完成，加速比（基准为100%）: 125.00 %", None, None, 1.25),
            ("1.25x faster", None, None, 1.25),
            ("speedup: 1.250000x", None, None, 1.25),
            ("the kernel is 3 times as fast", None, None, 3.0),
            ('{"do_bench": [0.02, 0.019, 0.03]}', None, 20e-6, None),
            ('{"ms": 0.02, "min_ms": 0.01, "max_ms": 0.03, "torch_ms": 0.04}', 40e-6, 20e-6, 2.0),
            ('{"baseTime_ns": 900, "median_latency_us": 0.3}', 0.9e-6, 0.3e-6, 3.0),
            ('{"base_time": "3.1 ms", "gen_time": "2.5ms", "speedup": "1.24x"}', 3.1e-3, 2.5e-3, 1.24),
            ('{"result": [{"base_time_s": 2, "kernel_time_s": 1}]}', 2.0, 1.0, 2.0),
            ('{"compile_time_ms": 3, "warmup_ms": 25, "time": 3, "s": 4}', None, None, None),
            ('{"other": {"speedup": 9}}', None, None, None),
            ("", None, None, None),
        ],
        ids=range(18),
    )  # fmt: skip
    def test_of_forms_that_programs_write(
        self, profile: str, base: float | None, generated: float | None, speedup: float | None
    ) -> None:
        measured = measurement_in(profile)
        assert measured.base_time == pytest.approx(base)
        assert measured.generated_time == pytest.approx(generated)
        assert measured.speedup == pytest.approx(speedup)
        assert speedup_in(profile) == measured.speedup

    def test_a_unit_that_no_name_bears_is_assumed_and_told(self) -> None:
        assert measurement_in(AIKG).unit_is_assumed
        assert measurement_in(KERNEL_BENCH).unit_is_assumed
        assert not measurement_in(FLASHINFER_BENCH).unit_is_assumed
        assert not measurement_in('{"base_time": "3 ms", "gen_time": "2 ms"}').unit_is_assumed

    def test_of_several_shapes_each_has_its_own_and_none_is_made_up_for_all(self) -> None:
        measured = measurement_in('{"cases": [{"ms": 1, "torch_ms": 2}, {"ms": 1, "torch_ms": 4}, {}]}')
        assert [one.speedup for one in measured.cases] == [2.0, 4.0]
        assert measured.speedup is None

    def test_a_profile_that_is_an_object_already(self) -> None:
        assert measurement_of(json.loads(AIKG)) == measurement_in(AIKG)


class TestTwoSpeedups:
    def test_both_are_kept_and_the_contradiction_told(self) -> None:
        measured = measurement_in('{"base_time_ms": 4, "gen_time_ms": 1, "speedup": 10}')
        assert (measured.told_speedup, measured.computed_speedup, measured.speedup) == (10, 4, 10)
        assert measured.contradiction == "The speedup is told as 10x, and the two times make 4x."

    def test_rounding_is_none(self) -> None:
        assert (
            measurement_in('{"base_time_ms": 3.1, "gen_time_ms": 2.5, "speedup": 1.25}').contradiction == ""
        )

    def test_without_the_times_there_is_nothing_to_contradict(self) -> None:
        assert measurement_in('{"speedup": 10, "gen_time_ms": 1}').contradiction == ""
        assert measurement_in('{"speedup": 10, "gen_time_ms": 0, "base_time_ms": 3}').contradiction == ""


class TestHowItWasMeasured:
    @pytest.mark.parametrize(
        ("profile", "method", "words"),
        [
            (AIKG, None, "method not stated"),
            (FLASHINFER_BENCH, None, "method not stated"),
            (
                EXAMPLE,
                Method(2, 9, "median", "wall_clock"),
                "median of 9 runs, 2 runs to warm up, wall clock",
            ),
            (
                KERNEL_BENCH,
                Method(10, 100, "mean", l2_flush=True, device="NVIDIA H100"),
                "mean of 100 runs, 10 runs to warm up, L2 flushed, on NVIDIA H100",
            ),
            (
                TEXT,
                Method(20, 50, "mean", "cuda_event", synchronised=True),
                "mean of 50 runs, 20 runs to warm up, CUDA events, synchronised",
            ),
            (
                '{"speedup": 2, "warmup_times": 5, "run_times": 50, "timer": "msprof", "sync": false}',
                Method(5, 50, "", "msprof", synchronised=False),
                "50 runs, 5 runs to warm up, msprof, not synchronised",
            ),
            ('{"do_bench": 0.02}', Method(statistic="median", timer="do_bench"), "median, do_bench"),
            ('{"speedup": 2, "timer": "my_clock"}', Method(timer="my_clock"), "my_clock"),
            ('{"speedup": 2, "repeats": -1, "warmup": true, "timer": 7}', None, "method not stated"),
        ],
        ids=range(9),
    )
    def test_is_kept_apart_from_what_it_says(self, profile: str, method: Method | None, words: str) -> None:
        measured = measurement_in(profile)
        assert measured.method == method
        assert measured.how == words


class TestWhatIsNoNumber:
    @pytest.mark.parametrize(
        "value", ["NaN", "Infinity", "-1", "-1.0", "true", "null", '"fast"', "1e999", "[1]", "{}"]
    )
    def test_is_not_known(self, value: str) -> None:
        profile = f'{{"gen_time_us": {value}, "base_time_us": {value}, "speedup": {value}}}'
        assert not measurement_in(profile)

    def test_an_int_beyond_a_float(self) -> None:
        assert not measurement_in('{"speedup": 1' + "0" * 400 + "}")

    def test_aikgs_failed_measurement(self) -> None:
        measured = measurement_in('{"gen_time": Infinity, "base_time": 0.0, "speedup": 0.0}')
        assert (measured.generated_time, measured.speedup, measured.contradiction) == (None, 0.0, "")

    @pytest.mark.parametrize(
        "profile",
        [
            "[" * 10_000_000,
            '{"speedup": ' * 100_000,
            '{"log": "' + "x" * 10_000_000 + '"}',
            "1." * 5_000_000,
            "speedup " * 1_000_000,
            "base time " * 1_000_000,
            "{" + ",".join(f'"base_time_{n}_ms": 1' for n in range(300_000)) + "}",
            '{"cases": [' + ",".join(['{"ms": 1}'] * 300_000) + "]}",
            '{"result": [' * 200 + "]}" * 200,
        ],
        ids=range(9),
    )
    def test_ten_megabytes_and_nesting(self, profile: str) -> None:
        assert measurement_in(profile).speedup is None
        assert len(measurement_in(profile).cases) <= 1000

    @given(st.text(max_size=200))
    def test_any_text(self, text: str) -> None:
        measured = measurement_in(text)
        assert measured.speedup is None or math.isfinite(measured.speedup)
        assert isinstance(dict(profile_in(text)), dict)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["speedup", "gen_time", "base_time_ms", "ms", "cases", "result", "metadata", "method"]
                    ),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=20,
        )
    )
    def test_any_document(self, document: object) -> None:
        measured = measurement_in(json.dumps(document))
        for number in (measured.base_time, measured.generated_time, measured.speedup):
            assert number is None or (math.isfinite(number) and number >= 0)
        assert isinstance(measured.how, str)


class TestAssessment:
    def test_correctness_timing_and_suspicion_are_separate(self) -> None:
        hint = Suspicion("zero_time", "The kernel's time is 0, so nothing was measured.")
        assert assess(True, KERNEL_BENCH, suspicions=(hint,)) == Assessment(
            Correctness(True, cases=5, cases_passed=5, max_absolute_error=0.0003),
            measurement_in(KERNEL_BENCH),
            (hint,),
        )

    def test_a_wrong_kernel_has_its_time(self) -> None:
        mismatch = Diagnostic(
            "numpy",
            "error",
            "numeric_mismatch",
            "Not equal to tolerance",
            figures={"share": 0.918, "max_absolute_difference": 3.5, "rtol": 1e-5, "total": 231},
        )
        told = assess(False, AIKG, [mismatch])
        assert told.correctness == Correctness(
            False, max_absolute_error=3.5, relative_tolerance=1e-5, wrong_share=0.918
        )
        assert told.measurement.speedup == 2.0

    def test_of_flashinfer_bench(self) -> None:
        told = assess(True, FLASHINFER_BENCH).correctness
        assert (told.max_relative_error, told.max_absolute_error) == (0.001, 0.0001)

    def test_of_nothing(self) -> None:
        assert assess(None) == Assessment(Correctness(), Measurement())
