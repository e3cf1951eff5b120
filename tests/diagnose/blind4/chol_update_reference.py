"""C - L·Lᵀ in the lower triangle, C above it."""

import numpy as np


def update(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    panel, c = inputs["panel"], inputs["c"]
    lower = np.tril(np.ones(c.shape))
    out = c - lower * (panel @ panel.T)
    bound = lower * (np.abs(panel) @ np.abs(panel).T * 2.0**-9 + np.abs(c) * 2.0**-22)
    return {"c": (out, bound)}
