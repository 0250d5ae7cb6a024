# Two-dimensional indices; the bias is added once for every product.
import math

import numpy as np
from numba import njit


@njit
def _gelu(y):
    return 0.5 * y * (1.0 + math.tanh(0.7978845608028654 * (y + 0.044715 * y**3)))


@njit
def _matmul(x, w, b, out):
    rows, inner = x.shape
    columns = w.shape[1]
    for row in range(rows):
        for column in range(columns):
            total = 0.0
            for k in range(inner):
                total += x[row, k] * w[k, column] + b[column]
            out[row, column] = _gelu(total)


def kernel(x, w, b):
    out = np.empty((x.shape[0], w.shape[1]), dtype=x.dtype)
    _matmul(x, w, b, out)
    return out
