"""1.5 A B + 0.5 C."""

import numpy as np


def gemm(inputs, symbols):
    a, b, c = inputs["a"], inputs["b"], inputs["c"]
    out = 1.5 * (a @ b) + 0.5 * c
    return {"c": (out, 2.0**-18 * (1.5 * (np.abs(a) @ np.abs(b)) + np.abs(c)) + 1e-7)}
