"""D[i] = relu(alpha[g] · A[i] · B[g]ᵀ + bias[g]) for the rows starts[g] ≤ i < starts[g + 1]."""

import numpy as np


def grouped(tensors, symbols):
    a, b, alpha, bias = (tensors[role] for role in ("a", "b", "alpha", "bias"))
    starts = np.asarray(tensors["starts"]).astype(np.int64)
    k = a.shape[1]
    d = np.zeros((a.shape[0], b.shape[1]))
    bound = np.zeros_like(d)
    for g in range(b.shape[0]):
        rows = slice(starts[g], starts[g + 1])
        total = alpha[g] * (a[rows] @ b[g].T) + bias[g]
        size = alpha[g] * (np.abs(a[rows]) @ np.abs(b[g]).T) + np.abs(bias[g])
        d[rows] = np.maximum(total, 0)
        bound[rows] = size * (k + 8) * 2.0**-24 + np.abs(d[rows]) * 2.0**-11 + 2.0**-25
    return d, bound * 1.01
