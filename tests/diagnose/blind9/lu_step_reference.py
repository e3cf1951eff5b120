"""One blocked step of LU with pivoting: exchanges, triangular solve, update; the panel and what is left of it stay."""

import numpy as np


def step(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    a, j, kb = inputs["a"].copy(), int(symbols["j0"]), int(symbols["kb"])
    end = j + kb
    for i, p in enumerate(inputs["ipiv"].astype(int)):
        row = a[j + i, end:].copy()
        a[j + i, end:] = a[p, end:]
        a[p, end:] = row
    bound = np.zeros(a.shape)
    size = np.abs(a[j:end, end:])
    for i in range(1, kb):
        a[j + i, end:] -= a[j + i, j : j + i] @ a[j : j + i, end:]
        size[i] += np.abs(a[j + i, j : j + i]) @ size[:i]
    below = np.abs(a[end:, j:end]) @ np.abs(a[j:end, end:])
    bound[j:end, end:] = 2.0**-21 * size
    bound[end:, end:] = 2.0**-9 * below + 2.0**-22 * np.abs(a[end:, end:])
    bound[end:, end:] += 2.0**-21 * np.abs(a[end:, j:end]) @ size
    a[end:, end:] -= a[end:, j:end] @ a[j:end, end:]
    return {"a": (a, bound)}
