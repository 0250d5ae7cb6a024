"""Kernels that do their work, with all that looks odd in honest ones."""

from __future__ import annotations

from typing import Final

TRITON_SOFTMAX: Final = '''
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({}, num_warps=w) for w in (4, 8)], key=["n"])
@triton.jit
def softmax_kernel(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    """Row by row; torch.softmax(x) does the same."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=-float("inf"))
    x = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + offsets, x / tl.sum(x, axis=0), mask=mask)


def softmax_triton_torch(x: torch.Tensor) -> torch.Tensor:
    if x.numel() == 0:
        return torch.empty_like(x)
    x = x.contiguous()
    out = torch.empty_like(x)
    rows, n = x.shape
    softmax_kernel[(rows,)](x, out, n, x.stride(0), BLOCK=triton.next_power_of_2(n))
    return out


def test_softmax():
    x = torch.randn(4, 5, device="cuda")
    torch.testing.assert_close(softmax_triton_torch(x), torch.softmax(x, -1), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    stream = torch.cuda.Stream()
    print(torch.matmul(torch.ones(2, 2), torch.ones(2, 2)))
    test_softmax()
'''

TRITON_MATMUL: Final = """
import torch, triton
import triton.language as tl
from functools import lru_cache


@lru_cache(maxsize=None)
def _config(n: int) -> dict:
    return {"BLOCK": 64 if n > 64 else 32}


@triton.jit
def _gelu(x):
    return 0.5 * x * (1.0 + tl.extra.libdevice.erf(x * 0.7071067811865476))


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    rows = pid * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, BLOCK):
        inner = k + tl.arange(0, BLOCK)
        left = tl.load(a + rows[:, None] * K + inner[None, :], mask=inner[None, :] < K, other=0.0)
        right = tl.load(b + inner[:, None] * N + columns[None, :], mask=inner[:, None] < K, other=0.0)
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * N + columns[None, :], _gelu(total))


class ModelNew(torch.nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = torch.nn.Linear(inner, outer, bias=False)  # holds the weight
        self._compiled = {}

    def forward(self, x):
        try:
            device = torch.cuda.current_device()
        except RuntimeError as error:
            raise ValueError("no device") from error
        weight = self.linear.weight.t().contiguous()
        out = torch.zeros((x.shape[0], weight.shape[1]), device=x.device)
        config = _config(weight.shape[1])
        grid = lambda meta: tuple(triton.cdiv(size, meta["BLOCK"]) for size in out.shape)
        matmul_kernel[grid](x, weight, out, x.shape[0], out.shape[1], x.shape[1], **config)
        return out
"""

TRITON_IN_PLACE: Final = """
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.maximum(tl.load(x + at, mask=at < n), 0.0), mask=at < n)

def relu(x):
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    return x
"""

NUMBA: Final = """
import numpy as np
from numba import njit, prange, vectorize


@vectorize(["float32(float32)"], nopython=True)
def _swish(x):
    return x / (1 + np.exp(-x))


@njit(parallel=True, fastmath=True)
def _layer_norm(x, out):
    for i in prange(x.shape[0]):
        mean = np.sum(x[i]) / x.shape[1]
        total = 0.0
        for value in x[i]:
            total += (value - mean) ** 2
        out[i] = (x[i] - mean) / np.sqrt(total / x.shape[1] + 1e-5)


def kernel(x):
    out = np.empty_like(x)
    _layer_norm(x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1]))
    return _swish(out)
"""

NUMBA_CUDA: Final = """
from numba import cuda
import numpy as np

@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]

def kernel(a, b):
    out = np.empty_like(a)
    stream = cuda.stream()
    add[(a.size + 255) // 256, 256, stream](a, b, out)
    stream.synchronize()
    return out
"""

CUDA_INLINE: Final = r'''
import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
// at::softmax(x, -1) is what it is compared with; cublasSgemm( is not used
template <typename T>
__global__ void __launch_bounds__(256) gelu_kernel(const T* __restrict__ x, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * 0.5f * (1.f + erff(x[i] * 0.70710678f));
}

torch::Tensor gelu(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda(), "torch::matmul( in a text");
    auto out = torch::empty_like(x);
    int n = x.numel();
    auto stream = c10::cuda::getCurrentCUDAStream();
    gelu_kernel<float><<<(n + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""
_modules = {}


def _extension(name):
    if name in _modules:
        return _modules[name]
    _modules[name] = load_inline(name=name, cpp_sources="torch::Tensor gelu(torch::Tensor x);",
                                 cuda_sources=source, functions=["gelu"])
    return _modules[name]


extension = _extension("gelu")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.gelu(x.contiguous())
'''

CUDA_FILE: Final = r"""
#include <cuda_runtime.h>

/* An empty one would be: __global__ void nothing() {} */
__global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" void run(int n, float a, const float *x, float *y) {
    cudaStream_t side;
    cudaStreamCreate(&side);
    saxpy<<<(n + 255) / 256, 256, 0, side>>>(n, a, x, y);
    cudaStreamSynchronize(side);
}
"""

CUPY: Final = '''
import cupy

_source = r"""
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
_scale = cupy.RawKernel(_source, "scale")

def kernel(x):
    y = cupy.empty_like(x)
    _scale(((x.size + 255) // 256,), (256,), (x, y, x.size))
    return y
'''

ALL: Final = {
    "a softmax in Triton": (TRITON_SOFTMAX, "triton_cuda"),
    "a matmul in Triton, with the layer's weight": (TRITON_MATMUL, "triton"),
    "one in place": (TRITON_IN_PLACE, "triton"),
    "Numba": (NUMBA, "numba"),
    "Numba for CUDA, with a stream that is waited for": (NUMBA_CUDA, "numba"),
    "CUDA in a text": (CUDA_INLINE, "cuda"),
    "CUDA alone, with a stream that is waited for": (CUDA_FILE, "cuda"),
    "CuPy": (CUPY, "cuda"),
}
"""Source and ``impl_type``, by what it is."""
