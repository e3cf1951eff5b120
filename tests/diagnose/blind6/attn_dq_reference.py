"""The gradient of attention's queries, from the forward pass's output and log-sum-exp."""

import numpy as np


def gradient(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    q, k, v, o, dout = (inputs[name] for name in ("q", "k", "v", "o", "dout"))
    p = np.exp(0.125 * q @ k.transpose(0, 2, 1) - inputs["lse"][..., None])
    if symbols["causal"]:
        p = p * np.tri(q.shape[1], k.shape[1])
    delta = (dout * o).sum(axis=-1, keepdims=True)
    ds = p * (dout @ v.transpose(0, 2, 1) - delta)
    return 0.125 * ds @ k
