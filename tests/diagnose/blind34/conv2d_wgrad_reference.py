"""Gradients of a convolution's filters and bias.

dW[k, r, s, c] = sum dY[n, p, q, k] · X[n, p·stride + r − pad, q·stride + s − pad, c].
"""

import numpy as np


def wgrad(tensors, symbols):
    dy, x = tensors["dy"], tensors["x"]
    stride, pad, taps_r, taps_s = (int(symbols[name]) for name in ("stride", "pad", "R", "S"))
    n, p, q, k = dy.shape
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    dw = np.zeros((k, taps_r, taps_s, x.shape[-1]))
    size = np.zeros_like(dw)
    for r in range(taps_r):
        for s in range(taps_s):
            window = padded[:, r : r + stride * (p - 1) + 1 : stride, s : s + stride * (q - 1) + 1 : stride]
            dw[:, r, s] = np.einsum("npqk,npqc->kc", dy, window)
            size[:, r, s] = np.einsum("npqk,npqc->kc", np.abs(dy), np.abs(window))
    scale = 0.125
    pixels = n * p * q
    db, db_size = dy.sum((0, 1, 2)), np.abs(dy).sum((0, 1, 2))
    return {
        "dw": (dw * scale, size * scale * (pixels + 8) * 2.0**-24 + 1e-30),
        "db": (db * scale, db_size * scale * (pixels + 8) * 2.0**-24 + 1e-30),
    }
