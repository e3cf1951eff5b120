"""One step of a GRU whose reset gate is applied behind the recurrent product."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(inputs, symbols):
    x, h, w, u, b, c = (inputs[name] for name in ("x", "h", "w", "u", "b_ih", "b_hh"))
    gx = np.einsum("bi,ghi->gbh", x, w) + b[:, None]
    gh = np.einsum("bi,ghi->gbh", h, u) + c[:, None]
    slack = 2.0**-19 * (
        np.einsum("bi,ghi->gbh", np.abs(x), np.abs(w)) + np.einsum("bi,ghi->gbh", np.abs(h), np.abs(u)) + 4
    )
    r, z = sigmoid(gx[0] + gh[0]), sigmoid(gx[1] + gh[1])
    n = np.tanh(gx[2] + r * gh[2])
    out = (1 - z) * n + z * h
    bound = slack[2] + slack[0] * np.abs(gh[2]) + slack[1] * np.abs(h - n) + 2.0**-8 * np.abs(out) + 2.0**-20
    return {"h_out": (out, bound)}
