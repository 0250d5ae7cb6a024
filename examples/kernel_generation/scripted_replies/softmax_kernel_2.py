# Rows one by one, every column, also those after the last four.
import math

import numpy as np
from numba import njit


@njit(fastmath=True)
def _softmax(x, out):
    rows, columns = x.shape
    for row in range(rows):
        top = x[row, 0]
        for column in range(1, columns):
            top = max(top, x[row, column])
        total = x[row, 0] * 0
        for column in range(columns):
            value = math.exp(x[row, column] - top)
            out[row, column] = value
            total += value
        for column in range(columns):
            out[row, column] /= total


def kernel(x):
    out = np.empty_like(x)
    _softmax(x, out)
    return out
