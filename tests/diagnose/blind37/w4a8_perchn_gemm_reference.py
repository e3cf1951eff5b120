"""W4A8 product with scales and zero points in the epilogue."""

import numpy as np


def w4a8(inputs, symbols):
    """out = ascale · wscale · A·Qᵀ − asum · wszero, Q unpacked from words of 8 nibbles."""
    words = inputs["qweight"].astype(np.int64)  # N, K/32, 4
    columns, blocks, _ = words.shape
    shifts = 8 * np.arange(4)
    low = (words[..., None] >> shifts) & 15  # N, K/32, 4, 4
    high = (words[..., None] >> (shifts + 4)) & 15
    q = np.stack([low, high], axis=2).reshape(columns, blocks * 32)  # halves of 32 values
    product = inputs["a"] @ q.T.astype(np.float64)
    first = inputs["ascale"][:, None] * inputs["wscale"][None, :] * product
    second = inputs["asum"][:, None] * inputs["wszero"][None, :]
    out = first - second
    bound = 2.0**-11 * np.abs(out) + 2.0**-21 * (np.abs(first) + np.abs(second)) + 2.0**-24
    return out, 1.05 * bound
