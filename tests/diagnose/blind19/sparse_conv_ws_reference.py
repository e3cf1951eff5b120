"""Sparse convolution: rows are gathered, multiplied by their offset's weight, and added to rows of the output."""

import numpy as np


def convolved(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    feat, weight = inputs["feat"], inputs["weight"]
    out = np.zeros((int(symbols["NOUT"]), weight.shape[2]))
    for o in range(weight.shape[0]):
        count = int(inputs["pair_count"][o])
        rows = inputs["in_idx"][o][:count].astype(int)
        to = inputs["out_idx"][o][:count].astype(int)
        np.add.at(out, to, feat[rows] @ weight[o])
    return out
