"""The gradient of a convolution with respect to its input: each output's gradient goes back to the pixels it saw."""

import numpy as np


def gradient(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    dy, wgt = inputs["dy"], inputs["wgt"]
    step, pad = int(symbols["stride"]), int(symbols["pad"])
    n, p, q, _ = dy.shape
    _, taps_h, taps_w, channels = wgt.shape
    height, width = int(symbols["H"]), int(symbols["W"])
    padded = np.zeros((n, height + 2 * pad + step, width + 2 * pad + step, channels))
    for r in range(taps_h):
        for s in range(taps_w):
            padded[:, r : r + p * step : step, s : s + q * step : step] += dy @ wgt[:, r, s]
    return padded[:, pad : pad + height, pad : pad + width]
