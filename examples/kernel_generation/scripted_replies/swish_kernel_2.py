# One pass over the flattened array; exp is math.exp.
import math

import numpy as np
from numba import njit


@njit(fastmath=True)
def _swish(x, out):
    for i in range(x.size):
        out[i] = x[i] / (1.0 + math.exp(-x[i]))


def kernel(x):
    out = np.empty_like(x)
    _swish(x.reshape(-1), out.reshape(-1))
    return out
