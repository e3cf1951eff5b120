"""Attention whose heads are mixed before and after the softmax."""

import numpy as np


def attention(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    out = np.zeros(q.shape)
    for b in range(q.shape[0]):
        n = int(inputs["lengths"][b])
        logits = np.einsum("qhd,khd->hqk", q[b], k[b, :n]) * symbols["scale"]
        logits = np.einsum("hqk,hg->gqk", logits, inputs["pl"])
        weights = np.exp(logits - logits.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        mixed = np.einsum("hqk,hg->gqk", weights, inputs["pw"])
        out[b] = np.einsum("hqk,khd->qhd", mixed.astype(np.float16).astype(np.float64), v[b, :n])
    return out
