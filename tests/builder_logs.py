"""Logs in the forms that TensorRT's versions print, of small networks."""

from __future__ import annotations

TRTEXEC_10 = """\
&&&& RUNNING TensorRT.trtexec [TensorRT v100800] [b43] # trtexec --onnx=block.onnx --fp16 --verbose
[11/20/2026-10:00:00] [I] === Build Options ===
[11/20/2026-10:00:00] [I] Memory Pools: workspace: default, dlaSRAM: default, tacticSharedMem: default
[11/20/2026-10:00:00] [I] Precision: FP32+FP16
[11/20/2026-10:00:00] [I] Device Global Memory: 5937 MiB
[11/20/2026-10:00:00] [I] TensorRT version: 10.8.0
[11/20/2026-10:00:01] [I] [TRT] [MemUsageChange] Init CUDA: CPU +1, GPU +0, now: CPU 16, GPU 585 (MiB)
[11/20/2026-10:00:01] [V] [TRT] Original: 12 layers
[11/20/2026-10:00:01] [V] [TRT] After dead-layer removal: 12 layers
[11/20/2026-10:00:01] [V] [TRT] Running: ConvReluFusion on /stem/Conv
[11/20/2026-10:00:01] [V] [TRT] ConvReluFusion: Fusing /stem/Conv with /stem/Relu
[11/20/2026-10:00:01] [V] [TRT] PointWiseFusion: Fusing PWN(/act/Sigmoid) with PWN(/act/Mul)
[11/20/2026-10:00:01] [V] [TRT] After vertical fusions: 9 layers
[11/20/2026-10:00:01] [V] [TRT] After concat removal: 9 layers
[11/20/2026-10:00:01] [V] [TRT] Graph optimization time: 0.00064 seconds.
[11/20/2026-10:00:02] [V] [TRT] --------------- Timing Runner: /stem/Conv + /stem/Relu (CaskConvolution[0x80000009])
[11/20/2026-10:00:02] [V] [TRT] Tactic Name: ampere_scudnn_128x64_relu_xregs_large_nn_v1 Tactic: 0x5deb29b7a8e275f7 Time: 0.0521752
[11/20/2026-10:00:02] [W] [TRT] UNSUPPORTED_STATE: Skipping tactic 33 due to insufficient memory on requested size of 629145600 detected for tactic 0xa5a46bfbd719d757.
[11/20/2026-10:00:02] [V] [TRT] /stem/Conv + /stem/Relu (CaskConvolution[0x80000009]) profiling completed in 0.08 seconds. Fastest Tactic: 0x5deb29b7a8e275f7 Time: 0.0521752
[11/20/2026-10:00:02] [V] [TRT] >>>>>>>>>>>>>>> Chose Runner Type: CaskConvolution Tactic: 0x5deb29b7a8e275f7
[11/20/2026-10:00:02] [V] [TRT] {ForeignNode[a...b]} (Myelin[0x80000023]) profiling completed in 9.3 seconds. Fastest Tactic: 0xd15ea5edd15ea5ed Time: inf
[11/20/2026-10:00:05] [I] [TRT] Total Activation Memory: 31744 bytes
[11/20/2026-10:00:05] [I] [TRT] Engine generation completed in 3.5 seconds.
[11/20/2026-10:00:05] [I] [TRT] [MemUsageStats] Peak memory usage of TRT CPU/GPU memory allocators: CPU 0 MiB, GPU 150 MiB
[11/20/2026-10:00:05] [I] Engine built in 4.75 sec.
&&&& PASSED TensorRT.trtexec [TensorRT v100800] [b43] # trtexec --onnx=block.onnx --fp16 --verbose
"""  # noqa: E501 - a log's lines are as long as they are

PYTHON_7 = """\
[TensorRT] VERBOSE: Original: 53 layers
[TensorRT] VERBOSE: BinaryFusion: Fusing conv0_fwd with relu0_fwd
[TensorRT] VERBOSE: Fusing convolution weights from conv1 with scale conv1_bn
[TensorRT] VERBOSE: After vertical fusions: 29 layers
[TensorRT] VERBOSE: After reformat layers: 31 layers
[TensorRT] VERBOSE: Tactic: 1002 time 0.059008
[TensorRT] VERBOSE: Tactic: -4787320710726427159 time 0.173056
[TensorRT] VERBOSE: Fastest Tactic: 1002 Time: 0.059008
[TensorRT] ERROR: Tactic Device request: 1728MB Available: 1536MB. Device memory is insufficient to use tactic.
[TensorRT] INTERNAL_ERROR: Assertion failed: enginePtr != nullptr
"""  # noqa: E501

INT8_WITH_CALIBRATION = """\
[V] [TRT] Original: 20 layers
[V] [TRT] After final dead-layer removal: 32 layers
[W] [TRT] Missing scale and zero-point for tensor (Unnamed Layer* 3) [Constant]_output, expect fall back to non-int8 implementation for any layer consuming or producing given tensor
[V] [TRT] Original: 20 layers
[V] [TRT] After vertical fusions: 5 layers
[W] [TRT] Missing scale and zero-point for tensor (Unnamed Layer* 3) [Constant]_output, expect fall back to non-int8 implementation for any layer consuming or producing given tensor
[W] [TRT] Default DLA is enabled but layer resize is not supported on DLA, falling back to GPU.
[E] [TRT] 10: Could not find any implementation for node {ForeignNode[a.../layers.7/Reshape_4]}.
[E] [TRT] IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any implementation for node {ForeignNode[a.../layers.7/Reshape_4]}.)
"""  # noqa: E501

FROM_THE_ARTICLE = """\
[INFO] Fusing MatMul_0 + Add_1 + Gelu_2 -> fused_gemm_activation
[WARNING] Cannot fuse MatMul_3 + Add_4: unsupported broadcast pattern
[INFO] Adding new input to network: input, dimensions: (-1,3,224,224)
[INFO] Convolution layer conv1: applying weight reordering for faster execution
[INFO] Fusing BatchNorm and Scale into previous convolution
[INFO] Selected kernel sm75_winograd_strided_batched for Convolution layer
[INFO] Estimated total device memory usage: 892 MiB
[INFO] Fusing QKV projection bias add → fused_gemm_bias
[WARNING] Layer qkv_proj: cannot apply fused GEMM due to mismatched shapes
[INFO] All transformer layers successfully optimized.
"""

ALL = {
    "trtexec 10": TRTEXEC_10,
    "Python 7": PYTHON_7,
    "INT8 with calibration": INT8_WITH_CALIBRATION,
    "from the article": FROM_THE_ARTICLE,
}
