"""dK = scale * dS^T Q, dS = P o (dO V^T - delta), P = exp(scale * Q K^T - L)."""

import numpy as np


def gradient(inputs, symbols):
    q, k, v, do = (inputs[name] for name in ("q", "k", "v", "do"))
    s = 0.125 * q @ k.transpose(0, 2, 1)
    p = np.exp(s - inputs["l"][..., None])
    if symbols["causal"]:
        p = p * np.tril(np.ones(s.shape[1:]))
    dp = do @ v.transpose(0, 2, 1)
    ds = p * (dp - inputs["delta"][..., None])
    size = 2.0**-10 * np.abs(ds) + p * 2.0**-17 * (np.abs(do) @ np.abs(v).transpose(0, 2, 1) + 1)
    size += 2.0**-16 * np.abs(ds) * (1 + np.abs(s))
    dk = 0.125 * ds.transpose(0, 2, 1) @ q
    bound = 0.125 * size.transpose(0, 2, 1) @ np.abs(q) + 2.0**-10 * np.abs(dk) + 2.0**-20
    return {"dk": (dk, bound)}
