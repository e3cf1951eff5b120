"""Rows times a Hadamard matrix of 512, quantised to eight bits with a scale per row; rounding may go the other way."""

import numpy as np


def rotate(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    h = np.ones((1, 1))
    for _ in range(9):
        h = np.block([[h, h], [h, -h]])
    y = (inputs["x"] * inputs["smooth"]) @ h / np.sqrt(512)
    scale = np.abs(y).max(axis=1) / 127
    q = np.rint(y / scale[:, None])
    return {"q": (q, np.full(q.shape, 1.0)), "scale": (scale, 2.0**-9 * scale)}
