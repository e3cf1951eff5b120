"""dinp = (dout @ weight) * gelu'(pre_gelu), dbias = sum of dout over its rows."""

import numpy as np


def backward(inputs, symbols):
    dout, weight, x = inputs["dout"], inputs["weight"], inputs["pre_gelu"]
    s = np.sqrt(2 / np.pi)
    t = np.tanh(s * (x + 0.044715 * x**3))
    grad = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * s * (1 + 3 * 0.044715 * x * x)
    dinp = (dout @ weight) * grad
    size = np.abs(dout) @ np.abs(weight)
    dbias = dout.sum(axis=0)
    return {
        "dinp": (dinp, np.abs(dinp) * 1.03 * 2.0**-8 + size * (np.abs(grad) * 2.0**-19 + 2.0**-21)),
        "dbias": (dbias, np.abs(dout).sum(axis=0) * 2.0**-18 + 1e-6),
    }
