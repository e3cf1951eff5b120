"""Gradients of a linear layer's weight and bias."""

import numpy as np


def gradients(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    dy, x = inputs["dy"], inputs["x"]
    return {"dw": dy.T @ x, "db": dy.sum(axis=0)}
