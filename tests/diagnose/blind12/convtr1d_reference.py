"""Transposed convolution along time with bias and a leaky ReLU."""

import numpy as np


def scattered(x, w, stride, pad, length):
    taps = w.shape[2]
    full = np.zeros((x.shape[0], w.shape[1], (x.shape[2] - 1) * stride + taps))
    for r in range(taps):
        full[:, :, r : r + (x.shape[2] - 1) * stride + 1 : stride] += np.einsum("ncl,cd->ndl", x, w[:, :, r])
    return full[:, :, pad : pad + length]


def upsample(inputs, symbols):
    x, w = inputs["x"], inputs["w"]
    stride, pad, length = (int(symbols[name]) for name in ("stride", "pad", "len_out"))
    y = scattered(x, w, stride, pad, length) + inputs["bias"][None, :, None]
    size = scattered(np.abs(x), np.abs(w), stride, pad, length) + np.abs(inputs["bias"])[None, :, None]
    y = np.where(y > 0, y, 0.1 * y)
    return {"y": (y, 2.0**-19 * size + 2.0**-11 * np.abs(y) + 2.0**-24)}
