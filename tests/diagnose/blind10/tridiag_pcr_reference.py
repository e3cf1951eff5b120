"""Diagonally dominant tridiagonal systems, solved."""

import numpy as np


def solve(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    x = np.zeros(inputs["d"].shape)
    bound = np.zeros(x.shape)
    n = x.shape[0]
    for s in range(x.shape[1]):
        a, b, c, d = (inputs[name][:, s] for name in "abcd")
        matrix = np.diag(b) + np.diag(a[1:], -1) + np.diag(c[: n - 1], 1)
        inverse = np.linalg.inv(matrix)
        x[:, s] = inverse @ d
        bound[:, s] = 2.0**-19 * np.abs(inverse) @ (np.abs(matrix) @ np.abs(x[:, s]) + np.abs(d))
    return {"x": (x, bound)}
