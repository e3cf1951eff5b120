"""Blocks of 32 nibbles less 8, times signed bytes, scaled by blocks; the sum of a block's bytes is given scaled."""

import numpy as np


def product(inputs, symbols):
    packed = inputs["x_qs"].astype(np.int64)
    x = np.concatenate([packed & 15, packed >> 4], axis=2).astype(float)
    dots = np.einsum("nkq,mkq->mnk", x, inputs["y_qs"])
    d, s = inputs["y_ds"][..., 0][:, None], inputs["y_ds"][..., 1][:, None]
    terms = inputs["x_d"][None] * (dots * d - 8 * s)
    size = np.abs(inputs["x_d"][None]) * (np.abs(dots * d) + 8 * np.abs(s))
    return {"dst": (terms.sum(axis=2), 2.0**-20 * size.sum(axis=2))}
