"""Covariance of features about a given mean, with what sums in float32 may be off by."""

import numpy as np


def covariance(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    x, mean = inputs["x"], inputs["mean"]
    n = x.shape[0]
    shift = n * np.outer(mean, mean)
    size = np.abs(x).T @ np.abs(x) + np.abs(shift)
    return (x.T @ x - shift) / (n - 1), 2.0**-18 * size / (n - 1)
