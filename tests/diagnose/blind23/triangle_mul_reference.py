"""Triangle multiplicative update along outgoing edges, gated."""

import numpy as np


def update(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    mask = inputs["mask"][:, :, :, None]
    left, right = inputs["a"] * mask, inputs["b"] * mask
    sums = np.einsum("bikc,bjkc->bijc", left, right, optimize=True)
    return sums / (1 + np.exp(-inputs["gate"]))
