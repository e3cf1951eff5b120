"""Codes of 32 sign bits each."""

import numpy as np


def codes(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    x, planes = inputs["x"], inputs["planes"]
    bits = (x @ planes.T + inputs["shift"] >= 0).astype(np.float64)
    tables = planes.shape[0] // 32
    return bits.reshape(x.shape[0], tables, 32) @ 2.0 ** np.arange(32)
