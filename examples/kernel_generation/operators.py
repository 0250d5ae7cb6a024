"""The operators to write kernels for: what each computes, on what it is tried, how close it must come."""

from __future__ import annotations

from dataclasses import dataclass

FRAMEWORK = "numpy"
IMPL_TYPE = "numba"


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator."""

    name: str
    summary: str
    reference: str
    """Source of a module with ``reference(*inputs)``, in NumPy."""
    shapes: tuple[tuple[tuple[int, ...], ...], ...]
    """Cases; each has the shapes of all inputs."""
    tolerance: tuple[tuple[str, float], ...] = (("float32", 1e-4), ("float64", 1e-9))
    """Relative and absolute tolerance by dtype."""


_SWISH = '''"""Swish (SiLU): x * sigmoid(x)."""

import numpy as np


def reference(x):
    return x / (1.0 + np.exp(-x))
'''

_SOFTMAX = '''"""Softmax over the last axis."""

import numpy as np


def reference(x):
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
'''

_LAYER_NORM = '''"""Layer normalisation over the last axis, with scale and shift."""

import numpy as np


def reference(x, gamma, beta):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta
'''

_MATMUL_BIAS_GELU = '''"""GELU (tanh form) of x @ w + b."""

import numpy as np


def reference(x, w, b):
    y = x @ w + b
    return 0.5 * y * (1.0 + np.tanh(0.7978845608028654 * (y + 0.044715 * y**3)))
'''

OPERATORS = {
    operator.name: operator
    for operator in (
        Operator(
            "swish",
            "elementwise x * sigmoid(x), any shape",
            _SWISH,
            shapes=(((4096,),), ((37, 1001),), ((256, 1024),)),
        ),
        Operator(
            "softmax",
            "softmax over the last axis of a 2-D array",
            _SOFTMAX,
            shapes=(((64, 128),), ((7, 33),), ((256, 1024),)),
        ),
        Operator(
            "layer_norm",
            "layer normalisation over the last axis of a 2-D array, with gamma and beta, eps 1e-5",
            _LAYER_NORM,
            shapes=(((16, 64), (64,), (64,)), ((5, 257), (257,), (257,)), ((256, 1024), (1024,), (1024,))),
        ),
        Operator(
            "matmul_bias_gelu",
            "GELU (tanh form) of x @ w + b",
            _MATMUL_BIAS_GELU,
            shapes=(
                ((16, 32), (32, 24), (24,)),
                ((33, 65), (65, 17), (17,)),
                ((128, 128), (128, 128), (128,)),
            ),
        ),
    )
}
