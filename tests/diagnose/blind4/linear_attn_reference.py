"""tril(Q·Kᵀ)·V; scores within a chunk and the state are rounded to half."""

import numpy as np


def attend(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    q, k, v = (inputs[name] for name in ("q", "k", "v"))
    lower = np.tril(np.ones((q.shape[1], q.shape[1])))
    scores = (q @ np.swapaxes(k, 1, 2)) * lower
    size = np.abs(q) @ np.swapaxes(np.abs(k), 1, 2) * lower @ np.abs(v)
    return scores @ v, 2.0**-11 * size + 1e-3
