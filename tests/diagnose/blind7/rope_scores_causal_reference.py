"""Scores of rotated queries and keys: the first channels turn in neighbouring pairs; keys of the future are at -1e4."""

import numpy as np


def scores(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    q, k, cos, sin = (inputs[name] for name in ("q", "k", "cos", "sin"))
    past = k.shape[2] - q.shape[2]

    def turned(x: np.ndarray, first: int) -> np.ndarray:
        c, s = (table[first : first + x.shape[2]] for table in (cos, sin))
        even, odd = x[..., 0:32:2], x[..., 1:32:2]
        pairs = np.stack([even * c - odd * s, even * s + odd * c], axis=-1)
        return np.concatenate([pairs.reshape(*x.shape[:3], 32), x[..., 32:]], axis=-1)

    keys = np.repeat(turned(k, 0), q.shape[1] // k.shape[1], axis=1)
    logits = 0.125 * turned(q, past) @ keys.transpose(0, 1, 3, 2)
    return np.where(np.tri(q.shape[2], k.shape[2], past) > 0, logits, -1e4)
