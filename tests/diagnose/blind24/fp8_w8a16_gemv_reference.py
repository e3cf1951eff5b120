"""A linear layer whose weights are E4M3 with one scale for each output."""

import numpy as np


def linear(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    bits = inputs["w"].astype(np.int64)
    exponent, mantissa = bits >> 3 & 15, bits & 7
    size = np.where(exponent > 0, (8 + mantissa) * 2.0 ** (exponent - 10.0), mantissa * 2.0**-9)
    weights = np.where(bits & 128, -size, size)
    return (inputs["x"] @ weights.T) * inputs["scale"]
