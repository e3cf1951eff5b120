"""A block of Householder reflectors applied from the left."""

import numpy as np


def larfb(inputs, symbols):
    """C - V·op(T)·Vᵀ·C, with V unit lower trapezoidal and T upper triangular."""
    c = inputs["c"]
    v = np.tril(inputs["v"], -1) + np.eye(symbols["M"], symbols["NB"])
    t = np.triu(inputs["t"])
    if symbols["trans"]:
        t = np.swapaxes(t, 1, 2)
    out = c - v @ (t @ (np.swapaxes(v, 1, 2) @ c))
    size = np.abs(c) + np.abs(v) @ (np.abs(t) @ (np.abs(np.swapaxes(v, 1, 2)) @ np.abs(c)))
    return out, 2.0**-46 * size
