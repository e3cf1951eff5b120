"""A causal dilated convolution along time, with ReLU."""

import numpy as np


def convolution(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    x, w = inputs["x"], inputs["w"]
    out = np.zeros((*x.shape[:2], w.shape[1])) + inputs["bias"]
    for tap in range(w.shape[0]):
        back = (w.shape[0] - 1 - tap) * int(symbols["dilation"])
        out[:, back:] += x[:, : x.shape[1] - back] @ w[tap].T
    return np.maximum(out, 0)
