"""Inclusive sums along each row."""

import numpy as np


def cumsum(inputs, symbols):
    x = inputs["x"]
    return {"y": (np.cumsum(x, axis=1), 2.0**-20 * np.cumsum(np.abs(x), axis=1) + 1e-9)}
