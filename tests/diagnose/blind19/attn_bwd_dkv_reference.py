"""Gradients of keys and values from what the forward pass and the row sums left."""

import numpy as np


def gradients(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    # all of them B, S, H, D; lse and delta B, H, S
    q, k, v, dout = (np.swapaxes(inputs[n], 1, 2) for n in ("q", "k", "v", "dout"))
    scale = q.shape[-1] ** -0.5
    scores = scale * q @ np.swapaxes(k, 2, 3) - inputs["lse"][..., None]
    p = np.exp(scores)
    if symbols["causal"]:
        p = np.tril(p)
    ds = p * (dout @ np.swapaxes(v, 2, 3) - inputs["delta"][..., None])
    dv = np.swapaxes(p, 2, 3) @ dout
    dk = scale * np.swapaxes(ds, 2, 3) @ q
    return {"dk": np.swapaxes(dk, 1, 2), "dv": np.swapaxes(dv, 1, 2)}
