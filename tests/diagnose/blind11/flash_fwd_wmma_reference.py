"""softmax(Q K^T / 8) V of each head, causal if the case says so."""

import numpy as np


def attention(inputs, symbols):
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    s = 0.125 * q @ k.transpose(0, 2, 1)
    slack = 2.0**-16 * (0.125 * np.abs(q) @ np.abs(k).transpose(0, 2, 1) + np.abs(s) + 1)
    if symbols["causal"]:
        s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    worst = np.where(p > 0, slack, 0).max(axis=-1, keepdims=True)
    bound = (p * (2.0**-10 + 4 * worst)) @ np.abs(v) + 2.0**-20 * np.abs(v).max()
    return {"o": (p @ v, bound)}
