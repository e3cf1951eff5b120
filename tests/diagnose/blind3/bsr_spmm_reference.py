"""A block-sparse matrix times a dense one."""

import numpy as np


def product(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    starts, columns = inputs["starts"].astype(int), inputs["columns"].astype(int)
    out = symbols["beta"] * inputs["y"]
    for row in range(len(starts) - 1):
        for block in range(starts[row], starts[row + 1]):
            at = 32 * columns[block]
            part = inputs["blocks"][block] @ inputs["x"][at : at + 32]
            out[32 * row : 32 * row + 32] += symbols["alpha"] * part
    return out
