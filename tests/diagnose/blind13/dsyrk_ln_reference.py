"""The lower triangle of alpha * A A^T + beta * C, columns one behind the other as in BLAS."""

import numpy as np


def syrk(inputs, symbols):
    n, k = symbols["n"], symbols["k"]
    a, c = inputs["a"][:, :n].T, inputs["c"].copy()
    lower = np.tril(1.5 * a @ a.T - 0.5 * c[:, :n].T)
    size = (k + 4) * 2.0**-52 * (1.5 * np.abs(a) @ np.abs(a).T + np.abs(c[:, :n].T))
    bound = np.zeros(c.shape)
    keep = np.tril(np.ones((n, n), bool))
    c[:, :n][keep.T] = lower.T[keep.T]
    bound[:, :n][keep.T] = size.T[keep.T]
    return {"c": (c, bound)}
