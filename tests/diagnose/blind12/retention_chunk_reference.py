"""Causal products of queries and keys, weighted by a power of gamma per step, times values; and the state behind."""

import numpy as np


def retention(inputs, symbols):
    q, k, v = (inputs[name].transpose(0, 2, 1, 3) for name in "qkv")
    length = q.shape[2]
    lg = inputs["log_gamma"][None, :, None, None]
    i, j = np.arange(length)[:, None], np.arange(length)[None, :]
    weight = np.where(j <= i, np.exp(lg * np.maximum(i - j, 0)), 0.0)
    o = (q @ k.transpose(0, 1, 3, 2) * weight) @ v
    size = (np.abs(q) @ np.abs(k).transpose(0, 1, 3, 2) * weight) @ np.abs(v)
    later = np.exp(lg * (length - 1 - np.arange(length))[:, None])
    state = (k * later).transpose(0, 1, 3, 2) @ v
    sizes = (np.abs(k) * later).transpose(0, 1, 3, 2) @ np.abs(v)
    return {
        "o": (o.transpose(0, 2, 1, 3), (2.0**-9 * size + 2.0**-20).transpose(0, 2, 1, 3)),
        "final_state": (state, 2.0**-10 * sizes + 2.0**-20),
    }
