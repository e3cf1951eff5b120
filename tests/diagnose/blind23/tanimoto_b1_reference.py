"""Tanimoto similarities not below a cutoff, and how many each query has."""

import numpy as np


def similarity(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    q, d = (inputs[name].astype(np.int64)[:, :, None] >> np.arange(32) & 1 for name in ("q", "d"))
    q, d = q.reshape(q.shape[0], -1).astype(np.float64), d.reshape(d.shape[0], -1).astype(np.float64)
    both = q @ d.T
    either = q.sum(axis=1)[:, None] + d.sum(axis=1)[None, :] - both
    sim = both / np.maximum(either, 1)
    hit = sim >= symbols["cutoff"]
    return {"sim": np.where(hit, sim, 0.0), "hits": hit.sum(axis=1)}
