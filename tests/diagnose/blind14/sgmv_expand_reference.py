"""Each segment's tokens get the product with its adapter's matrix, scaled, added."""

import numpy as np


def expand(inputs, symbols):
    starts, y = inputs["seg_start"].astype(int), inputs["y"].copy()
    bound = 2.0**-22 * np.abs(y)
    for first, end, adapter in zip(starts, starts[1:], inputs["seg_adapter"].astype(int), strict=False):
        scale = inputs["scaling"][adapter]
        y[first:end] += scale * inputs["v"][first:end] @ inputs["b"][adapter]
        bound[first:end] += 2.0**-19 * abs(scale) * np.abs(inputs["v"][first:end]) @ np.abs(inputs["b"][adapter])
    return {"y": (y, bound + 2.0**-22 * np.abs(y) + 2.0**-30)}
