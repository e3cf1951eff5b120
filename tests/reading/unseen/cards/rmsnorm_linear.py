import numpy as np


def rmsnorm_linear(inputs, symbols):
    """RMSNorm(x; gamma) @ W^T for x [M, K], W [N, K]."""
    x = inputs["x"]
    normalised = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * inputs["gamma"]
    return normalised @ inputs["w"].T
