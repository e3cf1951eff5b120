"""Gradients of layer norm followed by a linear layer, given the gradient of its output."""

import numpy as np


def backward(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    dh = inputs["dz"] @ inputs["w"]
    rstd = inputs["rstd"][:, None]
    xh = (inputs["x"] - inputs["mean"][:, None]) * rstd
    dxh = dh * inputs["gamma"]
    dx = rstd * (dxh - dxh.mean(axis=1, keepdims=True) - xh * (dxh * xh).mean(axis=1, keepdims=True))
    starts = np.arange(0, dh.shape[0], 32)
    return {"dx": dx, "dgamma": np.add.reduceat(dh * xh, starts, axis=0), "dbeta": np.add.reduceat(dh, starts, axis=0)}
