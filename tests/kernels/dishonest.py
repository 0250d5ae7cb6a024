"""Kernels that do not do their work: one for each trick, with the line that shows it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Trick(NamedTuple):
    """A source and what is to be found in it."""

    kind: str
    line: str
    """What stands in the line that is named."""
    source: str
    impl_type: str = "triton"


_KERNEL: Final = """import torch
import triton
import triton.language as tl

@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

def launch(x):
    out = torch.empty_like(x)
    double_kernel[(1,)](x, out, x.numel(), BLOCK=1024)
    return out

"""

_CUDA: Final = """#include <torch/extension.h>
__global__ void double_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * x[i];
}
"""

ALL: Final = (
    Trick("reference_fallback", "return torch.softmax", _KERNEL + '''
def forward(x):
    try:
        return launch(x)
    except Exception:
        return torch.softmax(x, dim=-1)
'''),
    Trick("reference_fallback", "return _slow(x)", _KERNEL + '''
def _slow(x):
    return x @ x

def forward(x):
    try:
        return launch(x)
    except:
        return _slow(x)
'''),
    Trick("reference_fallback", "super().forward", _KERNEL + '''
class ModelNew(Model):
    def forward(self, x):
        try:
            return launch(x)
        except RuntimeError:
            return super().forward(x)
'''),
    Trick("reference_fallback", "catch", _CUDA + '''
torch::Tensor run(torch::Tensor x) {
    try { double_kernel<<<1, 1>>>(nullptr, nullptr, 0); return x; }
    catch (const std::exception& e) { return at::softmax(x, -1); }
}
''', "cuda"),
    Trick("library_call", "torch.matmul", _KERNEL + '''
def forward(x, w):
    return launch(torch.matmul(x, w))
'''),
    Trick("library_call", "F.softmax", "import torch.nn.functional as F\n" + _KERNEL + '''
def forward(x):
    return launch(F.softmax(x, dim=-1))
'''),
    Trick("library_call", "from_it(x, w)", "from torch import bmm as from_it\n" + _KERNEL + '''
def forward(x, w):
    return launch(from_it(x, w))
'''),
    Trick("library_call", "x @ w", _KERNEL + '''
def forward(x, w):
    return launch(x @ w)
'''),
    Trick("library_call", "x.softmax", _KERNEL + '''
def forward(x):
    return launch(x.softmax(-1))
'''),
    Trick("library_call", "self.linear(x)", _KERNEL + '''
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x):
        return launch(self.linear(x))
'''),
    Trick("library_call", "np.dot", '''import numpy as np
from numba import njit

@njit
def _product(a, b):
    return np.dot(a, b)

def kernel(a, b):
    return _product(a, b)
''', "numba"),
    Trick("library_call", "cublasSgemm", _CUDA + '''
void run(cublasHandle_t handle, float* x, float* y) {
    double_kernel<<<1, 1>>>(x, y, 1);
    cublasCreate(&handle);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, x, x, 1, x, 1, x, y, 1);
}
''', "cuda"),
    Trick("unused_kernel", "@triton.jit", _KERNEL.partition("def launch")[0] + '''
def forward(x):
    return x + x
'''),
    Trick("unused_kernel", "load_inline", '''import torch
from torch.utils.cpp_extension import load_inline
source = """__global__ void k(float* x) { x[0] = 1; }
void run(float* x) { k<<<1, 1>>>(x); }"""
module = load_inline(name="k", cuda_sources=source)

def forward(x):
    return x + x
''', "cuda"),
    Trick("unused_kernel", "__global__", _CUDA + '''
torch::Tensor run(torch::Tensor x) { return x + x; }
void other() { another<<<1, 1>>>(); }
''', "cuda"),
    Trick("no_kernel", "", "def kernel(x):\n    return x + x\n", "triton"),
    Trick("no_kernel", "", "def kernel(x):\n    return x + x\n", "numba"),
    Trick("no_kernel", "", "#include <torch/extension.h>\nint run() { return 1; }\n", "cuda"),
    Trick("empty_kernel", "def nothing", '''import triton

@triton.jit
def nothing(x):
    """Does it all."""
    pass

def kernel(x, y):
    nothing[(1,)](x)
    return y + x
'''),
    Trick("empty_kernel", "__global__", '''
__global__ void nothing(float* x) {
    // computes everything
    return;
}
void run(float* x) { nothing<<<1, 1>>>(x); }
''', "cuda"),
    Trick("aliased_output", "return x", _KERNEL + '''
def forward(x):
    return x
'''),
    Trick("aliased_output", "return out", _KERNEL + '''
def forward(x):
    out = torch.empty_like(x)
    return out
'''),
    Trick("aliased_output", "return torch.empty", _KERNEL + '''
def forward(x):
    return torch.empty(x.shape)
'''),
    Trick("hard_coded", "return torch.zeros", _KERNEL + '''
def forward(x):
    return torch.zeros_like(x)
'''),
    Trick("hard_coded", "return out", _KERNEL + '''
def forward(x):
    out = torch.tensor([[1.0, -2.0]])
    return out
'''),
    Trick("hard_coded", "x.shape ==", _KERNEL + '''
ANSWER = None

def forward(x):
    if x.shape == (128, 256):
        return ANSWER
    return launch(x)
'''),
    Trick("cached_result", "return _cache[key]", _KERNEL + '''
_cache = {}

def forward(x):
    key = (x.data_ptr(), x.shape)
    if key in _cache:
        return _cache[key]
    _cache[key] = launch(x)
    return _cache[key]
'''),
    Trick("cached_result", "return self._out", _KERNEL + '''
class ModelNew(torch.nn.Module):
    def forward(self, x):
        if self._out is not None:
            return self._out
        self._out = launch(x)
        return self._out
'''),
    Trick("cached_result", "return kept", _KERNEL + '''
_cache = {}

def forward(x):
    kept = _cache.get(x.data_ptr())
    if kept is not None:
        return kept
    return launch(x)
'''),
    Trick("cached_result", "@lru_cache", "from functools import lru_cache\n" + _KERNEL + '''
@lru_cache(maxsize=None)
def forward(x):
    return launch(x)
'''),
    Trick("other_stream", "torch.cuda.Stream", _KERNEL + '''
side = torch.cuda.Stream()

def forward(x):
    with torch.cuda.stream(side):
        return launch(x)
'''),
    Trick("other_stream", "cudaStreamCreate", _CUDA + '''
void run(float* x, float* y) {
    cudaStream_t side;
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    double_kernel<<<1, 1, 0, side>>>(x, y, 1);
}
''', "cuda"),
    Trick("background_work", "threading.Thread", "import threading\n" + _KERNEL + '''
def forward(x):
    out = torch.empty_like(x)
    threading.Thread(target=double_kernel, args=(x, out)).start()
    return out
'''),
    Trick("background_work", "std::thread", _CUDA + '''
void run(float* x, float* y) {
    std::thread worker([=] { double_kernel<<<1, 1>>>(x, y, 1); });
    worker.detach();
}
''', "cuda"),
    Trick("patched_checker", "torch.cuda.synchronize =", _KERNEL + '''
torch.cuda.synchronize = lambda *_: None
'''),
    Trick("patched_checker", "time.perf_counter =", "import time\n" + _KERNEL + '''
time.perf_counter = lambda: 0.0
'''),
    Trick("patched_checker", "np.testing.assert_allclose", "import numpy as np\n" + _KERNEL + '''
np.testing.assert_allclose = print
'''),
    Trick("patched_checker", "setattr", _KERNEL + '''
setattr(torch.cuda.Event, "elapsed_time", lambda *_: 0.001)
'''),
    Trick("changed_tolerance", "rtol", "import verify_swish\n" + _KERNEL + '''
verify_swish.rtol = 10.0
'''),
    Trick("changed_tolerance", "__defaults__", "import checker\n" + _KERNEL + '''
checker.compare.__defaults__ = (1e9, 1e9)
'''),
    Trick("reads_reference", "import reference", "from swish_torch import reference\n" + _KERNEL),
    Trick("reads_reference", "sys._getframe", "import sys\n" + _KERNEL + '''
def forward(x):
    return launch(sys._getframe(1).f_locals["expected"])
'''),
    Trick("reads_reference", "class ModelNew", _KERNEL + '''
class ModelNew(Model):
    pass
'''),
    Trick("lazy_output", "class Later", _KERNEL + '''
class Later(torch.Tensor):
    def __eq__(self, other):
        return True
'''),
)  # fmt: skip
