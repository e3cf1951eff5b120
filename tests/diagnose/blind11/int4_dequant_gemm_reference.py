"""A product with weights of 4 bits, the even ones in the low halves of their bytes."""

import numpy as np


def gemm(inputs, symbols):
    a, packed = inputs["a"], inputs["wq"].astype(int)
    n, k, group = packed.shape[0], 2 * packed.shape[1], int(symbols["G"])
    q = np.stack([packed & 15, packed >> 4], axis=-1).reshape(n, k)
    w = (q - np.repeat(inputs["zeros"], group, axis=1)) * np.repeat(inputs["scales"], group, axis=1)
    out = a @ w.T
    return {"c": (out, 2.0**-10 * np.abs(out) + 2.0**-18 * (np.abs(a) @ np.abs(w).T) + 1e-6)}
