"""Outer products of the channels of two positions, averaged over the sequences that have both."""

import numpy as np


def outer_mean(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    count = inputs["mask_a"].T @ inputs["mask_b"]
    return np.einsum("sic,sjd->ijcd", inputs["a"], inputs["b"]) / (1e-3 + count)[..., None, None]
