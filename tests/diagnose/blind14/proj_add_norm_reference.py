"""Rows of ctx w + bo + x, normalised, scaled and shifted."""

import numpy as np


def layer(inputs, symbols):
    ctx, w, x, gamma = (inputs[name] for name in ("ctx", "w", "x", "gamma"))
    v = ctx @ w + inputs["bo"] + x
    slack = 2.0**-19 * (np.abs(ctx) @ np.abs(w) + np.abs(inputs["bo"]) + np.abs(x))
    worst = slack.max(axis=1, keepdims=True)
    inverse = 1 / np.sqrt(v.var(axis=1, keepdims=True) + 1e-5)
    z = (v - v.mean(axis=1, keepdims=True)) * inverse
    y = z * gamma + inputs["beta"]
    bound = (2 * worst * inverse * (1 + np.abs(z)) + 2.0**-20 * np.abs(z)) * np.abs(gamma) + 2.0**-10.9 * np.abs(y)
    return {"out": (y, bound + 2.0**-20)}
