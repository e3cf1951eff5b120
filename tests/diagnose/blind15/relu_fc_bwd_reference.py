"""Gradients of relu(inp w + b) by inp, and by b, which is added to."""

import numpy as np


def backward(inputs, symbols):
    dz = np.where(inputs["out"] > 0, inputs["dout"], 0)
    w, dbias = inputs["weight"], inputs["dbias"]
    dinp, summed = dz @ w.T, dbias + dz.sum(axis=0)
    near = 2.0**-19 * np.abs(dz) @ np.abs(w).T + 2.0**-7.9 * np.abs(dinp) + 2.0**-30
    return {"dinp": (dinp, near), "dbias": (summed, 2.0**-19 * (np.abs(dbias) + np.abs(dz).sum(axis=0)))}
