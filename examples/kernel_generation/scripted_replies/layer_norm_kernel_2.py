# Three passes over a row, all of them counted loops.
import math

import numpy as np
from numba import njit


@njit(fastmath=True)
def _layer_norm(x, gamma, beta, out):
    rows, columns = x.shape
    for row in range(rows):
        total = 0.0
        for column in range(columns):
            total += x[row, column]
        mean = total / columns
        variance = 0.0
        for column in range(columns):
            variance += (x[row, column] - mean) ** 2
        scale = 1.0 / math.sqrt(variance / columns + 1e-5)
        for column in range(columns):
            out[row, column] = (x[row, column] - mean) * scale * gamma[column] + beta[column]


def kernel(x, gamma, beta):
    out = np.empty_like(x)
    _layer_norm(x, gamma, beta, out)
    return out
