"""Attention of one token per sequence over the window of a ring-buffer cache, with soft-capped scores."""

import numpy as np


def decode(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    lens = inputs["lens"].astype(int)
    scale, cap = symbols["scale"], symbols["cap"]
    batch, heads, _ = q.shape
    slots, kv_heads = k.shape[1:3]
    group = heads // kv_heads
    out = np.zeros(q.shape)
    for b in range(batch):
        first = max(0, lens[b] - int(symbols["window"]))
        where = np.arange(first, lens[b]) % slots
        if len(where) == 0:
            continue
        for h in range(heads):
            s = k[b, where, h // group] @ q[b, h] * scale
            if cap > 0:
                s = cap * np.tanh(s / cap)
            p = np.exp(s - s.max())
            out[b, h] = p @ v[b, where, h // group] / p.sum()
    return out
