"""Gradients of a linear layer's input and bias behind a GELU (the one with tanh)."""

import numpy as np


def gradients(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    h = inputs["h"]
    t = np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3))
    slope = 0.5 * (1 + t) + 0.5 * h * (1 - t**2) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * h**2)
    dh = inputs["dy"] * slope
    return {"dx": dh @ inputs["w"], "db": dh.sum(axis=0)}
