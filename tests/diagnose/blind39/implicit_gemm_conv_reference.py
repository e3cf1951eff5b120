"""out[m] = sum over kernel offsets of feats[map[m, v]] @ kernel[v]; nothing where map is -1."""

import numpy as np


def sparse_conv(inputs, symbols):
    feats, kernel, index = inputs["feats"], inputs["kernel"], inputs["map"].astype(np.int64)
    gathered = np.where(index[:, :, None] >= 0, feats[np.maximum(index, 0)], 0)
    out = np.einsum("mvc,vcn->mn", gathered, kernel)
    size = np.einsum("mvc,vcn->mn", np.abs(gathered), np.abs(kernel))
    return out, np.abs(out) * 1.03 * 2.0**-11 + size * 2.0**-19 + 1e-6
