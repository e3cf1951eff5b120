"""Sparse convolution by lists of pairs: gathered rows times the offset's weights, added to the rows of the output."""

import numpy as np


def convolve(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    features, weights = inputs["features"], inputs["weights"]
    out = np.zeros((int(symbols["Nout"]), weights.shape[2]))
    for offset in range(weights.shape[0]):
        n = int(inputs["pairs"][offset])
        rows = inputs["in_map"][offset, :n].astype(int)
        np.add.at(out, inputs["out_map"][offset, :n].astype(int), features[rows] @ weights[offset])
    return out
