"""The gradients of attention's keys and values, from the forward pass's log-sum-exp and delta."""

import numpy as np


def gradients(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    q, k, v, dout = (inputs[name] for name in ("q", "k", "v", "dout"))
    scale = 32**-0.5
    p = np.exp(scale * q @ k.transpose(0, 2, 1) - inputs["lse"][..., None])
    if symbols["causal"]:
        p = p * np.tri(q.shape[1], k.shape[1])
    ds = p * (dout @ v.transpose(0, 2, 1) - inputs["delta"][..., None])
    return {"dk": scale * ds.transpose(0, 2, 1) @ q, "dv": p.transpose(0, 2, 1) @ dout}
