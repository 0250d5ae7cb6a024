# Rows one by one, columns four at a time.
import math

import numpy as np
from numba import njit


@njit
def _softmax(x, out):
    rows, columns = x.shape
    for row in range(rows):
        top = x[row].max()
        total = 0.0
        for column in range(0, columns - 3, 4):
            for lane in range(4):
                value = math.exp(x[row, column + lane] - top)
                out[row, column + lane] = value
                total += value
        for column in range(columns):
            out[row, column] /= total


def kernel(x):
    out = np.zeros_like(x)
    _softmax(x, out)
    return out
