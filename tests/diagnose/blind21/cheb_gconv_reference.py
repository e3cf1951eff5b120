"""Chebyshev graph convolution; T is rounded to bf16 where it is multiplied."""

import numpy as np


def bf16(x: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32).astype(np.float64)


def convolve(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    lap, x, w = inputs["lap"], inputs["x"], inputs["w"]
    before, now = np.zeros(x.shape), x
    y = np.zeros(x.shape) + inputs["bias"]
    for k in range(w.shape[0]):
        y = y + bf16(now) @ w[k]
        product = lap @ bf16(now)
        before, now = now, product if k == 0 else 2 * product - before
    return np.maximum(y, 0.0)
