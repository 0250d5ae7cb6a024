"""From one line of a builder's log to what it says."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_kernel_trace.builder import BuilderLine, read_line
from tests import builder_logs

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("line", "severity", "message"),
    [
        ("[TensorRT] VERBOSE: Original", "VERBOSE", "Original"),
        ("[TensorRT] INTERNAL_ERROR: bad", "INTERNAL_ERROR", "bad"),
        ("[11/20/2026-10:00:00] [TRT] [I] up", "INFO", "up"),
        ("[11/20/2026-10:00:00] [I] [TRT] up", "INFO", "up"),
        ("[11/20/2026-10:00:00] [W] Dynamic dimensions", "WARNING", "Dynamic dimensions"),
        ("[11/20/2026-10:00:00] [TRT-LLM] [E] no", "ERROR", "no"),
        ("[2026-11-20 10:00:00 WARNING] slow", "WARNING", "slow"),
        ("[V] [TRT] a", "VERBOSE", "a"),
        ("[F] [TRT] a", "INTERNAL_ERROR", "a"),
        ("[INFO] a", "INFO", "a"),
        ("WARNING: [TRT]: a", "WARNING", "a"),
        ("[TRT]    Running: A on b", "INFO", "Running: A on b"),
        ("[mmros_detection2d_exe-1] [E] [TRT] a", "ERROR", "a"),
        ("\x1b[33m[W] a\x1b[0m", "WARNING", "a"),
        ("[I] [TRT] [GraphReduction] a", "INFO", "[GraphReduction] a"),
        ("[I] a: [E] b\r\n", "INFO", "a: [E] b"),
        ("no prefix at all", "INFO", "no prefix at all"),
        ("[unclosed", "INFO", "[unclosed"),
        ("", "INFO", ""),
    ],
)
def test_the_prefix_tells_the_severity(line: str, severity: str, message: str) -> None:
    read = read_line(line)
    assert (read.severity, read.message) == (severity, message)


def test_a_given_severity_means_a_bare_message() -> None:
    assert read_line("[E] is a name here", "WARNING") == BuilderLine("WARNING", "[E] is a name here")


@pytest.mark.parametrize(
    ("message", "kind", "facts"),
    [
        (
            "BinaryFusion: Fusing conv0 with relu0",
            "fusion_made",
            {"fused": "conv0 with relu0", "rule": "BinaryFusion"},
        ),
        ("Fusing A + B -> C", "fusion_made", {"fused": "A + B", "into": "C"}),
        (
            "Fusing MatMul_0 Add_1 Gelu_2 - fused_gemm",
            "fusion_made",
            {"fused": "MatMul_0 Add_1 Gelu_2", "into": "fused_gemm"},
        ),
        ("Fusing QKV bias add → fused", "fusion_made", {"fused": "QKV bias add", "into": "fused"}),
        (
            "Fusing BatchNorm and Scale into previous convolution",
            "fusion_made",
            {"fused": "BatchNorm and Scale", "into": "previous convolution"},
        ),
        ("Merging layers: a || b", "fusion_made", {"fused": "a || b", "rule": "Merging layers"}),
        (
            "Cannot fuse onnx::Add_3 + B: no broadcast",
            "fusion_refused",
            {"fused": "onnx::Add_3 + B", "reason": "no broadcast"},
        ),
        (
            "Layer qkv_proj: cannot apply fused GEMM due to mismatched shapes",
            "fusion_refused",
            {"node": "qkv_proj", "fused": "GEMM", "reason": "mismatched shapes"},
        ),
        (
            "Convolution + generic activation fusion is disable due to incompatible driver or nvrtc",
            "fusion_refused",
            {"node": "Convolution + generic activation", "reason": "incompatible driver or nvrtc"},
        ),
        ("A and B can't be fused", "fusion_refused", {"node": "A and B"}),
        ("Original: 53 layers", "layers", {"layers": 53, "pass": "original"}),
        ("After dupe layer removal: 1 layer", "layers", {"layers": 1, "pass": "dupe layer removal"}),
        ("Tactic: 1002 time 0.059", "tactic_timed", {"tactic": "1002", "milliseconds": 0.059}),
        ("Tactic -71 time 10.1", "tactic_timed", {"tactic": "-71", "milliseconds": 10.1}),
        (
            "Tactic Name: sm80_xmma Tactic: 0x0a14 Time: 0.129",
            "tactic_timed",
            {"name": "sm80_xmma", "tactic": "0x0a14", "milliseconds": 0.129},
        ),
        ("Tactic: 0x01 Time: inf", "tactic_timed", {"tactic": "0x01"}),
        ("Fastest Tactic: 0 Time: 0.0154", "tactic_chosen", {"tactic": "0", "milliseconds": 0.0154}),
        (
            "conv (Cask[0x8]) profiling completed in 0.08 seconds. Fastest Tactic: 0xd8 Time: 0.05",
            "tactic_chosen",
            {"node": "conv (Cask[0x8])", "tactic": "0xd8", "milliseconds": 0.05},
        ),
        ("Fastest Tactic: 0xd15ea5edd15ea5ed Time: inf", None, {}),
        ("Fastest Tactic: -336 Time: 3.40282e+38", None, {}),
        (
            ">>>>>>>>>>>>>>> Chose Runner Type: Gather Tactic: 7",
            "tactic_chosen",
            {"runner": "Gather", "tactic": "7"},
        ),
        ("Tactic 0 is the only option, timing skipped", "tactic_chosen", {"tactic": "0"}),
        (
            "Selected kernel sm75_winograd for Convolution layer",
            "tactic_chosen",
            {"name": "sm75_winograd", "node": "Convolution"},
        ),
        (
            "UNSUPPORTED_STATESkipping tactic 4 due to insufficient memory on requested size of 66048 "
            "detected for tactic 0x1f.",
            "tactic_skipped",
            {"tactic": "4", "reason": "insufficient memory", "bytes": 66048},
        ),
        (
            "Skipping tactic 0x31 due to exception an illegal memory access was encountered",
            "tactic_skipped",
            {"tactic": "0x31", "reason": "exception an illegal memory access was encountered"},
        ),
        (
            "[MemUsageStats] Peak memory usage of TRT CPU/GPU memory allocators: CPU 0 MiB, GPU 150 MiB",
            "memory",
            {"bytes": 150 * MIB, "where": "peak of allocators", "device": "gpu"},
        ),
        (
            "[MemUsageStats] Peak memory usage during Engine building and serialization: CPU: 3 MiB",
            "memory",
            {"bytes": 3 * MIB, "where": "peak of building and serialization", "device": "cpu"},
        ),
        (
            "[MemUsageChange] Init cuDNN: CPU +0, GPU -33, now: CPU 2007, GPU 3857 (MiB)",
            "memory",
            {"bytes": 3857 * MIB, "where": "in use: Init cuDNN", "device": "gpu"},
        ),
        (
            "[MemUsageSnapshot] Builder begin: CPU 245 MiB, GPU 215 MiB",
            "memory",
            {"bytes": 215 * MIB, "where": "in use: Builder begin", "device": "gpu"},
        ),
        (
            "Total Activation Memory: 31744",
            "memory",
            {"bytes": 31744, "where": "Total Activation Memory", "device": "gpu"},
        ),
        (
            "Total Host Persistent Memory: 224 bytes",
            "memory",
            {"bytes": 224, "where": "Total Host Persistent Memory", "device": "cpu"},
        ),
        (
            "Estimated total device memory usage: 892 MiB",
            "memory",
            {"bytes": 892 * MIB, "where": "Estimated total device memory usage", "device": "gpu"},
        ),
        ("Total Weights Memory: 9999999999999999999 GiB", "memory", {"bytes": 2**63 - 1}),
        (
            "Engine generation completed in 3.00621 seconds.",
            "engine_time",
            {"seconds": 3.00621, "phase": "generation"},
        ),
        ("Engine built in 480.55 sec.", "engine_time", {"seconds": 480.55, "phase": "build"}),
        ("Graph construction and optimization completed in 0.02 seconds.", None, {}),
        (
            "10: Could not find any implementation for node conv (fp16).",
            "no_implementation",
            {"node": "conv (fp16)"},
        ),
        (
            "Error Code 10: Internal (Could not find any implementation for node {ForeignNode[a...b]}.)",
            "no_implementation",
            {"node": "{ForeignNode[a...b]}"},
        ),
        (
            "Could not find any implementation for node c due to insufficient workspace. See verbose log.",
            "no_implementation",
            {"node": "c", "reason": "insufficient workspace"},
        ),
        (
            "Missing scale and zero-point for tensor 768, expect fall back to non-int8 implementation "
            "for any layer consuming or producing given tensor",
            "fallback",
            {"tensor": "768"},
        ),
        (
            "Default DLA is enabled but layer resize is not supported on DLA, falling back to GPU.",
            "fallback",
            {"node": "resize"},
        ),
        ("Precision: FP32+FP16", "precision", {"precision": "fp32+fp16"}),
        ("TensorRT version: 8.6.1", "version", {"version": "8.6.1"}),
        ("&&&& RUNNING TensorRT.trtexec [TensorRT v8205] # trtexec", "version", {"version": "8.2.5"}),
        ("&&&& PASSED TensorRT.trtexec [TensorRT v100300]", "version", {"version": "10.3.0"}),
        ("Running: ConvReluFusion on conv1", None, {}),
        ("Applying generic optimizations to the graph for inference.", None, {}),
        ("Device Global Memory: 5937 MiB", None, {}),
        ("RoPE configured, context length 2048", None, {}),
    ],
)
def test_what_a_line_tells(message: str, kind: str | None, facts: dict[str, object]) -> None:
    read = read_line(message, "INFO")
    assert read.message == message
    assert read.kind == kind
    assert {name: read.facts[name] for name in facts} == facts
    assert len(facts) == len(read.facts) or read.facts["bytes"] == 2**63 - 1


def test_a_long_line_is_whole_and_read_at_its_beginning() -> None:
    line = "Cannot fuse " + "a" * 5000 + ": too far behind"
    read = read_line(line, "INFO")
    assert (read.message, read.kind) == (line, "fusion_refused")
    assert read.facts == {"fused": "a" * (4096 - len("Cannot fuse "))}


@given(st.text(alphabet="[]TRWEV :.-\x1b0m/F\n", max_size=60), st.sampled_from([None, "VERBOSE"]))
def test_no_noise_raises_and_nothing_but_the_prefix_is_taken(noise: str, severity: None) -> None:
    read = read_line(noise, severity)
    assert read.message in noise


_LINES = [line for log in builder_logs.ALL.values() for line in log.splitlines()]


@given(st.sampled_from(_LINES), st.integers(0, 200), st.text(max_size=20))
def test_a_line_that_is_cut_or_torn_is_read_all_the_same(line: str, at: int, noise: str) -> None:
    for torn in (line[:at], line[at:], line[:at] + noise + line[at:]):
        read = read_line(torn)
        assert all(type(value) in (str, int, float) for value in read.facts.values())


def test_reading_lines_loads_neither_opentelemetry_nor_the_logger() -> None:
    script = (
        "import sys; from otel_kernel_trace.builder.lines import read_line; "
        "sys.exit(any(name.startswith(('opentelemetry', 'logging', 'otel_kernel_trace.live')) "
        "for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
