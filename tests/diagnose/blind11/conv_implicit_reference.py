"""A convolution with padding and stride, NHWC by KRSC."""

import numpy as np


def conv(inputs, symbols):
    x, w = inputs["x"], inputs["w"]
    pad, stride = int(symbols["pad"]), int(symbols["stride"])
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    _, R, S, _ = w.shape
    P, Q = (x.shape[1] - R) // stride + 1, (x.shape[2] - S) // stride + 1
    out = np.zeros((x.shape[0], P, Q, w.shape[0]))
    size = out.copy()
    for r in range(R):
        for s in range(S):
            part = x[:, r : r + stride * (P - 1) + 1 : stride, s : s + stride * (Q - 1) + 1 : stride]
            out += part @ w[:, r, s].T
            size += np.abs(part) @ np.abs(w[:, r, s]).T
    return {"y": (out, 2.0**-18 * size + 1e-7)}
