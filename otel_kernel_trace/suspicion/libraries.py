"""Which languages kernels are written in by hand, and which calls leave the work to a library."""

from __future__ import annotations

import re
from typing import Final

_ON_DEVICES: Final = frozenset((
    "triton", "triton_ascend", "triton_cuda", "cuda", "cuda_c", "hip", "swft", "tilelang", "tilelang_cuda",
    "tilelang_ascend", "tilelang_npuir", "ascendc", "ascend_c", "cute", "cutlass", "pallas", "thunderkittens",
))  # fmt: skip
_BY_HAND: Final = _ON_DEVICES | {"numba", "cpp", "c++", "c"}

_OPERATORS: Final = (
    r"(?:addmm|addmv|baddbmm|bmm|mm|mv|dot|vdot|inner|matmul|einsum|tensordot|linear|bilinear"
    r"|conv[123]d|conv_transpose[123]d|conv|convolution|convolve"
    r"|(?:adaptive_)?(?:avg|max)_pool[123]d|(?:log_)?softmax|logsumexp|relu6?|leaky_relu|gelu|silu|mish|elu|selu"
    r"|hardtanh|hardswish|hardsigmoid|softplus|softsign|swish"
    r"|(?:batch|group|layer|instance|rms)_norm|cross_entropy|kl_div|mse_loss|huber_loss|nll_loss"
    r"|smooth_l1_loss|triplet_margin_loss|cosine_similarity|scaled_dot_product_attention|embedding_bag"
    r"|cumsum|cumprod|sort|topk)"
)
LIBRARY_CALL: Final = re.compile(
    r"(?:torch|torch\.(?:ops\.aten|nn\.functional|special)|torch_npu|mindspore\.(?:ops|mint|mint\.nn\.functional)"
    rf"|jax\.(?:nn|lax|numpy)|cupy|paddle|paddle\.nn\.functional|tensorflow(?:\.nn)?)\.{_OPERATORS}"
    r"|torch\.(?:sigmoid|tanh)|torch\.nn\.functional\.(?:sigmoid|tanh|normalize|dropout)|torch_npu\.npu_\w{1,60}"
    r"|torch\.linalg\.\w{1,40}|torch\.fft\.\w{1,40}|torch\.compile"
    r"|(?:numpy|cupy|jax\.numpy)\.(?:linalg|fft)\.\w{1,40}|scipy\.\w{1,40}(?:\.\w{1,40}){0,3}"
    r"|numpy\.(?:dot|vdot|inner|matmul|einsum|tensordot|convolve|correlate|sort)"
)
"""Full names of Python functions of a library that do an operator's work."""

LIBRARY_METHOD: Final = re.compile(
    r"addmm|baddbmm|bmm|mm|mv|matmul|log_softmax|softmax|relu_?|gelu|silu|logsumexp"
)
"""Of tensors."""

LIBRARY_LAYER: Final = re.compile(
    r"torch\.nn\.(?!Module|Parameter|ParameterList|ParameterDict|ModuleList|ModuleDict|Identity|init|functional)"
    r"[A-Z]\w{1,60}"
)

LIBRARY_CPP: Final = re.compile(
    r"\b(?:cublas|cudnn|cusparse|cusolver|cufft|rocblas|hipblas|miopen|aclnn)[A-Z]\w{0,60}\s{0,8}\("
    r"|\bcblas_\w{1,40}\s{0,8}\("
    rf"|\b(?:at|torch|at::native|torch::nn::functional)::{_OPERATORS}(?:_out|_)?\s{{0,8}}\("
    r"|\b(?:at|torch)::(?:sigmoid|tanh)(?:_out|_)?\s{0,8}\("
)
_CREATES_HANDLE: Final = re.compile(r"(?:Create|Destroy|Set|Get)[A-Z]?\w{0,60}\s{0,8}\(")


def is_by_hand(impl_type: str) -> bool:
    """Whether kernels of that type are to do the work themselves."""
    return impl_type.strip().lower() in _BY_HAND


def is_on_device(impl_type: str) -> bool:
    """Whether kernels of that type are launched on another device than the program's."""
    return impl_type.strip().lower() in _ON_DEVICES


def is_set_up(call: str) -> bool:
    """Whether a C++ call only prepares a library."""
    return bool(_CREATES_HANDLE.search(call))
