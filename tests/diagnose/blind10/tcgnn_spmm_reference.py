"""Each node's sum of its neighbours' rows, weighted by the edges."""

import numpy as np


def spmm(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    x, start = inputs["x"], inputs["rowptr"].astype(int)
    y, size = np.zeros(x.shape), np.zeros(x.shape)
    for row in range(x.shape[0]):
        for e in range(start[row], start[row + 1]):
            term = inputs["values"][e] * x[int(inputs["colidx"][e])]
            y[row] += term
            size[row] += np.abs(term)
    return {"y": (y, 2.0**-9 * size)}
