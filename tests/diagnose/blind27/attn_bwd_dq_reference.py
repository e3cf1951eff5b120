"""Gradient of attention with respect to the queries, from the saved log-sum-exp."""

import numpy as np


def dq(tensors, symbols):
    """dQ = scale · dS·K, dS = P ⊙ (dO·Vᵀ − rowsum(dO ⊙ O)), P = exp(scale · Q·Kᵀ − lse)."""
    group = int(symbols["H"]) // int(symbols["Hkv"])
    scale = 1.0 / np.sqrt(float(symbols["D"]))
    q, o, do = (np.moveaxis(tensors[role], 2, 1) for role in ("q", "o", "do"))
    k, v = (np.repeat(np.moveaxis(tensors[role], 2, 1), group, axis=1) for role in ("k", "v"))
    p = np.exp(scale * (q @ np.swapaxes(k, 2, 3)) - tensors["lse"][..., None])
    if symbols["causal"]:
        p = np.tril(p)
    dp = do @ np.swapaxes(v, 2, 3)
    delta = np.sum(do * o, axis=3)[..., None]
    ds = p * (dp - delta)
    out = scale * (ds @ k)
    # dS is rounded to bf16; f32 sums of its terms, and the exponential, have some 2^-18
    magnitude = p * (np.abs(do) @ np.abs(np.swapaxes(v, 2, 3)) + np.sum(np.abs(do * o), axis=3)[..., None])
    bound = (
        2.0**-8 * scale * (np.abs(ds) @ np.abs(k)) + 2.0**-18 * scale * (magnitude @ np.abs(k)) + 2.0**-8 * np.abs(out)
    )
    return {"dq": (np.moveaxis(out, 1, 2), np.moveaxis(bound, 1, 2) + 1e-6)}
