"""Integer products, scaled, shifted, rounded and clamped to a byte; next to halves either neighbour is right."""

import numpy as np


def bmm(inputs, symbols):
    sums = inputs["a"] @ inputs["b"].transpose(0, 2, 1)
    v = sums / 1024 + inputs["bias"]
    out = np.clip(np.rint(v), -128, 127)
    tie = np.abs(np.abs(v - np.floor(v)) - 0.5) < 2.0**-16 * (1 + np.abs(v))
    return {"c": (out, np.where(tie, 1.0, 0.0))}
