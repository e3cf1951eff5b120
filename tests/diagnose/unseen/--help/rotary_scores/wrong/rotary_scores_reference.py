"""Rotary embedding of halves, then scaled products, as a model's own code has it."""

import numpy as np


def rotate(x, cos, sin):
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def reference(inputs, symbols):
    table = inputs["table"]
    where = inputs["positions"].astype(int)
    cos, sin = table[..., 0][where][:, :, None], table[..., 1][where][:, :, None]
    q, k = rotate(inputs["q"], cos, sin), rotate(inputs["k"], cos, sin)
    return np.einsum("bshd,bthd->bhst", q, k) * symbols["scale"]
