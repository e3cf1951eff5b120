"""Each cell's sum over the seven by seven cells around it; cells less than three from an edge stay as they are."""

import numpy as np


def stencil(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    grid, w = inputs["in"], inputs["weights"]
    ny, nx = grid.shape
    out, size = grid.copy(), np.zeros(grid.shape)
    inner = np.zeros((ny - 6, nx - 6))
    for dy in range(7):
        for dx in range(7):
            term = w[dy, dx] * grid[dy : dy + ny - 6, dx : dx + nx - 6]
            inner += term
            size[3:-3, 3:-3] += np.abs(term)
    out[3:-3, 3:-3] = inner
    return {"out": (out, 2.0**-46 * size)}
