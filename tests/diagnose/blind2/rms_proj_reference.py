"""RMSNorm with a weight, rounded to half, times the transposed weight of a projection."""

import numpy as np


def projected(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    x, g, w = inputs["x"], inputs["g"], inputs["w"]
    root = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + symbols["eps"])
    return (x / root * g).astype(np.float16).astype(np.float64) @ w.T
