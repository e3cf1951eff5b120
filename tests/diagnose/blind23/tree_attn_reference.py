"""Attention of a tree of tokens to a cached prefix and to their ancestors."""

import numpy as np


def attention(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    nodes = q.shape[1]
    bits = inputs["mask"].astype(np.int64)[:, None] >> np.arange(nodes) & 1
    out = np.zeros(q.shape)
    for b in range(q.shape[0]):
        prefix = int(inputs["prefix"][b])
        seen = np.concatenate([np.ones((nodes, prefix)), bits], axis=1)
        n = prefix + nodes
        scores = np.einsum("qhd,hkd->hqk", q[b], k[b, :, :n]) * 0.125
        scores = np.where(seen > 0, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        out[b] = np.einsum("hqk,hkd->qhd", weights, v[b, :, :n])
    return out
