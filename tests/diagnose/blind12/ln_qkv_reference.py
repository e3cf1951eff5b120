"""Rows normalised, rounded to half, projected, and split into queries (scaled), keys and values of heads."""

import numpy as np


def project(inputs, symbols):
    b, s, h, d = (int(symbols[name]) for name in "BSHD")
    x = inputs["x"]
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    x = x * inputs["gamma"] + inputs["beta"]
    scale = np.repeat([d**-0.5, 1, 1], h * d)
    y = (x @ inputs["w"] + inputs["bias"]) * scale
    size = (np.abs(x) @ np.abs(inputs["w"]) + np.abs(inputs["bias"])) * scale
    bound = 2.0**-10.5 * size + 2.0**-11 * np.abs(y) + 2.0**-22

    def heads(z):
        return z.reshape(b, s, 3, h, d).transpose(2, 0, 3, 1, 4)

    return {"qkv": (heads(y), heads(bound))}
