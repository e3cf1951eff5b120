import itertools

import numpy as np


def reference(inputs, symbols):
    q, k, v = inputs["Q"], inputs["K"], inputs["V"]
    cu = inputs["cu_seqlens"].astype(int)
    window = int(symbols["window"])
    out = np.zeros_like(q)
    for a, b in itertools.pairwise(cu):
        i = np.arange(b - a)
        hidden = i[None, :] > i[:, None]
        if window > 0:
            hidden |= i[None, :] <= i[:, None] - window
        for h in range(q.shape[1]):
            s = q[a:b, h] @ k[a:b, h].T / np.sqrt(q.shape[2])
            s[hidden] = -np.inf
            p = np.exp(s - s.max(axis=1, keepdims=True))
            out[a:b, h] = p @ v[a:b, h] / p.sum(axis=1, keepdims=True)
    return out
