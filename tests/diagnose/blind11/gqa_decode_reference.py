"""Attention of one query per head over a cache that groups of heads share."""

import numpy as np


def decode(inputs, symbols):
    q, group = inputs["q"], int(symbols["Hq"] // symbols["Hkv"])
    out = np.zeros(q.shape)
    bound = out.copy()
    for b, length in enumerate(inputs["lens"].astype(int)):
        for h in range(q.shape[1]):
            k, v = inputs["k"][b, :length, h // group], inputs["v"][b, :length, h // group]
            s = 0.125 * k @ q[b, h]
            slack = 2.0**-16 * (0.125 * np.abs(k) @ np.abs(q[b, h]) + np.abs(s) + 1).max()
            p = np.exp(s - s.max())
            p /= p.sum()
            out[b, h] = p @ v
            bound[b, h] = (2.0**-10 + 4 * slack) * (p @ np.abs(v)) + 2.0**-20 * np.abs(v).max()
    return {"out": (out, bound)}
