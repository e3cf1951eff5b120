"""Causal attention whose queries and keys are quantised by blocks of tokens."""

import numpy as np


def attention(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    qs = np.repeat(inputs["qs"], 64, axis=2)[:, :, : q.shape[1]]
    ks = np.repeat(inputs["ks"], 32, axis=2)[:, :, : k.shape[1]]
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) * qs[:, :, :, None] * ks[:, :, None, :] * 0.125
    later = np.arange(k.shape[1])[None, :] > np.arange(q.shape[1])[:, None]
    scores = np.where(later, -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    weights /= weights.sum(axis=3, keepdims=True)
    return np.einsum("bhqk,bkhd->bqhd", weights, v)
