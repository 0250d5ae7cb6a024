"""What a whole log comes to."""

from __future__ import annotations

import pytest

from otel_kernel_trace.builder import BuilderSummary, read_log
from tests import builder_logs

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("log", "summary"),
    [
        pytest.param(
            builder_logs.TRTEXEC_10,
            BuilderSummary(
                lines=26,
                warnings=1,
                fusions_made=2,
                layers_before=12,
                layers_after=9,
                fusion_rate=0.25,
                fusion_basis="layers",
                peak_memory=150 * MIB,
                tactics_chosen=1,
                tactics_skipped=1,
                engine_time=3.5,
                engine_version="10.8.0",
                precision="fp32+fp16",
            ),
            id="trtexec 10",
        ),
        pytest.param(
            builder_logs.PYTHON_7,
            BuilderSummary(
                lines=10,
                errors=2,
                fusions_made=2,
                layers_before=53,
                layers_after=29,
                fusion_rate=1 - 29 / 53,
                fusion_basis="layers",
                tactics_chosen=1,
            ),
            id="Python 7",
        ),
        pytest.param(
            builder_logs.INT8_WITH_CALIBRATION,
            BuilderSummary(
                lines=9,
                errors=2,
                warnings=3,
                layers_before=20,
                layers_after=5,
                fusion_rate=0.75,
                fusion_basis="layers",
                missing_implementations=1,
                fallbacks=2,
            ),
            id="INT8 with calibration",
        ),
        pytest.param(
            builder_logs.FROM_THE_ARTICLE,
            BuilderSummary(
                lines=10,
                warnings=2,
                fusions_made=3,
                fusions_refused=2,
                fusion_rate=0.6,
                fusion_basis="decisions",
                peak_memory=892 * MIB,
                tactics_chosen=1,
            ),
            id="from the article",
        ),
        pytest.param("", BuilderSummary(), id="empty"),
        pytest.param("\n \nhello\n", BuilderSummary(lines=2), id="no builder's"),
    ],
)
def test_a_log_in_figures(log: str, summary: BuilderSummary) -> None:
    assert read_log(log) == summary
    assert read_log(log.replace("\n", "\r\n")).fusion_rate == summary.fusion_rate


def test_a_log_without_layers_or_decisions_has_no_fusion_rate() -> None:
    summary = read_log("[I] Engine built in 2 sec.\n[V] Original: 0 layers\n[V] After swap: 0 layers\n")
    assert (summary.fusion_rate, summary.fusion_basis, summary.engine_time) == (None, None, 2.0)


def test_layers_that_became_more_are_a_negative_rate() -> None:
    assert read_log("Original: 10 layers\nAfter swap: 12 layers").fusion_rate == pytest.approx(-0.2)


def test_the_time_of_several_engines_is_their_sum() -> None:
    assert read_log("Engine generation completed in 1.5 seconds.\n" * 2).engine_time == 3.0


def test_the_largest_peak_counts_and_an_estimate_only_without_one() -> None:
    peak = "[MemUsageStats] Peak memory usage of TRT CPU/GPU memory allocators: CPU 0 MiB, GPU {} MiB\n"
    estimate = "Estimated total device memory usage: 900 MiB\n"
    assert read_log(peak.format(7) + peak.format(5) + estimate).peak_memory == 7 * MIB
    assert read_log(estimate + "Total Activation Memory: 5 bytes").peak_memory == 900 * MIB
    assert read_log("[MemUsageChange] x: CPU +2, GPU +0, now: CPU 25, GPU 500 (MiB)").peak_memory is None


def test_attributes_leave_out_what_is_not_told() -> None:
    assert read_log("Original: 4 layers\nAfter swap: 3 layers\n").attributes() == {
        "kernel_trace.builder.lines": 2,
        "kernel_trace.builder.errors": 0,
        "kernel_trace.builder.warnings": 0,
        "kernel_trace.builder.fusions_made": 0,
        "kernel_trace.builder.fusions_refused": 0,
        "kernel_trace.builder.layers_before": 4,
        "kernel_trace.builder.layers_after": 3,
        "kernel_trace.builder.fusion_rate": 0.25,
        "kernel_trace.builder.fusion_basis": "layers",
        "kernel_trace.builder.tactics_chosen": 0,
        "kernel_trace.builder.tactics_skipped": 0,
        "kernel_trace.builder.missing_implementations": 0,
        "kernel_trace.builder.fallbacks": 0,
    }


@pytest.mark.parametrize("log", builder_logs.ALL.values(), ids=list(builder_logs.ALL))
def test_a_log_that_breaks_off_anywhere_is_read_as_far_as_it_goes(log: str) -> None:
    lines = 0
    for end in range(len(log)):
        summary = read_log(log[:end])
        assert summary.lines >= lines
        lines = summary.lines


def test_any_number_of_nodes_is_counted_in_bounded_memory() -> None:
    log = "".join(f"Could not find any implementation for node n{n}.\n" for n in range(10_000))
    assert read_log(log).missing_implementations == 10_000
