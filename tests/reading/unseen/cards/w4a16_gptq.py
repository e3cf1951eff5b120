import numpy as np


def matmul(inputs, symbols):
    """x [M, K] @ W [K, N], W = scale * (nibble - (zero + 1)), packed as GPTQ does."""
    qweight = inputs["qweight"].astype(np.int64)
    qzeros = inputs["qzeros"].astype(np.int64)
    shifts = 4 * np.arange(8)
    q = ((qweight[:, None, :] >> shifts[:, None]) & 15).reshape(-1, qweight.shape[1])
    z = ((qzeros[:, :, None] >> shifts) & 15).reshape(qzeros.shape[0], -1)
    group = int(symbols["G"])
    scale = np.repeat(inputs["scales"], group, axis=0)
    weight = scale * (q - (np.repeat(z, group, axis=0) + 1))
    return inputs["x"] @ weight
