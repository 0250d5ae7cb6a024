# One pass over the flattened array.
import numpy as np
from numba import njit


@njit
def _swish(x, out):
    for i in range(x.size):
        out[i] = x[i] / (1.0 + exp(-x[i]))  # noqa: F821


def kernel(x):
    out = np.empty_like(x)
    _swish(x.reshape(-1), out.reshape(-1))
    return out
