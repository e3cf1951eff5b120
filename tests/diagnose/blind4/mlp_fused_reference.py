"""An MLP with ReLU; activations are rounded to half between the layers."""

import numpy as np


def forward(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    x, w = inputs["x"], inputs["w"]
    width, at = 64, 0
    error = np.zeros_like(x)
    for layer in range(int(symbols["L"]) + 2):
        last = layer == int(symbols["L"]) + 1
        rows = 16 if last else width
        weight = w[at : at + rows * x.shape[1]].reshape(rows, x.shape[1])
        at += weight.size
        size = np.abs(x) @ np.abs(weight).T
        error = error @ np.abs(weight).T + 2.0**-20 * size
        x = x @ weight.T
        error = error + 2.0**-11 * np.abs(x)
        if not last:
            x = np.maximum(x, 0)
    return x, error + 1e-3
