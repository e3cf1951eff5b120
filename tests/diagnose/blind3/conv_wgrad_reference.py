"""The gradient of a convolution's filters: dy over the input under each tap."""

import numpy as np


def gradient(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    stride, pad, r, s = (int(symbols[name]) for name in ("stride", "pad", "R", "S"))
    dy = inputs["dy"]
    x = np.pad(inputs["x"], ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    p, q = dy.shape[1:3]
    out = np.zeros((dy.shape[3], r, s, x.shape[3]))
    for i in range(r):
        for j in range(s):
            seen = x[:, i : i + stride * p : stride, j : j + stride * q : stride][:, :p, :q]
            out[:, i, j] = np.einsum("npqk,npqc->kc", dy, seen)
    return out
