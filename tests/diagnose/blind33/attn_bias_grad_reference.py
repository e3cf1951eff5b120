"""dBias = sum over the batch of P · (dO · Vᵀ − delta), P = exp(scale · Q · Kᵀ + bias − lse)."""

import numpy as np


def bias_grad(tensors, symbols):
    q, k, v, grad = (np.moveaxis(tensors[role], 2, 1) for role in ("q", "k", "v", "grad_out"))  # [B, H, S, D]
    bias, lse, delta = tensors["bias"], tensors["lse"], tensors["delta"]
    scale = 1 / np.sqrt(q.shape[-1])
    scores = scale * (q @ np.swapaxes(k, -1, -2)) + bias[None]
    size = scale * (np.abs(q) @ np.swapaxes(np.abs(k), -1, -2)) + np.abs(bias[None]) + np.abs(lse)[..., None]
    p = np.exp(scores - lse[..., None])
    if symbols["causal"]:
        p = p * np.tril(np.ones(p.shape[-2:]))
    dp = grad @ np.swapaxes(v, -1, -2) - delta[..., None]
    dp_size = np.abs(grad) @ np.swapaxes(np.abs(v), -1, -2) + np.abs(delta)[..., None]
    bound = p * dp_size * (size + 8) * 2.0**-20
    return (p * dp).sum(0), bound.sum(0) + 1e-30
