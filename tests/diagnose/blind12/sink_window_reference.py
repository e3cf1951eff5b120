"""Attention to the last `window` keys, with one more score per head that has no value."""

import numpy as np


def attention(inputs, symbols):
    q, k, v = (inputs[name].transpose(1, 0, 2) for name in "qkv")
    k, v = (np.repeat(x, q.shape[0] // k.shape[0], axis=0) for x in (k, v))
    scale = 32**-0.5
    s = scale * q @ k.transpose(0, 2, 1)
    slack = 2.0**-17 * (scale * np.abs(q) @ np.abs(k).transpose(0, 2, 1) + np.abs(s) + 1)
    i, j = np.arange(s.shape[1])[:, None], np.arange(s.shape[2])[None, :]
    s = np.where((j <= i) & (i - j < symbols["window"]), s, -np.inf)
    sink = inputs["sinks"][:, None, None]
    top = np.maximum(s.max(axis=-1, keepdims=True), sink)
    p = np.exp(s - top)
    p = p / (p.sum(axis=-1, keepdims=True) + np.exp(sink - top))
    worst = np.where(p > 0, slack, 0).max(axis=-1, keepdims=True)
    o = p @ v
    bound = (p * (2.0**-10 + 4 * worst)) @ np.abs(v) + 2.0**-11 * np.abs(o) + 2.0**-22
    return {"out": (o.transpose(1, 0, 2), bound.transpose(1, 0, 2))}
