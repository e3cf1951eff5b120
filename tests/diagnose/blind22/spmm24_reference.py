"""A linear layer with 2:4 compressed weights."""

import numpy as np


def linear(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    vals, meta = inputs["vals"], inputs["meta"].astype(np.int64)
    rows, kept = vals.shape
    groups = kept // 2
    nibbles = np.stack([meta >> (4 * part) & 15 for part in range(4)], axis=2).reshape(rows, groups)
    weights = np.zeros((rows, groups, 4))
    for row in range(rows):
        weights[row, np.arange(groups), nibbles[row] & 3] = vals[row, 0::2]
        weights[row, np.arange(groups), nibbles[row] >> 2 & 3] = vals[row, 1::2]
    total = weights.reshape(rows, 2 * kept) @ inputs["x"] + inputs["bias"][:, None]
    return np.maximum(total, 0.0)
