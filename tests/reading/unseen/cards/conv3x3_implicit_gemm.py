import numpy as np


def conv(inputs, symbols):
    """x [N, H, W, C], w [K, R, S, C] -> y [N, P, Q, K]: a convolution with padding and stride."""
    x, w = inputs["x"], inputs["w"]
    pad, stride = int(symbols["pad"]), int(symbols["stride"])
    r, s = w.shape[1:3]
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    p = (x.shape[1] - r) // stride + 1
    q = (x.shape[2] - s) // stride + 1
    y = np.zeros((x.shape[0], p, q, w.shape[0]))
    for i in range(r):
        for j in range(s):
            y += x[:, i : i + p * stride : stride, j : j + q * stride : stride, :] @ w[:, i, j, :].T
    return y
