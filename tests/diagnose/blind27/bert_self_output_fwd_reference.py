"""What the fused layer should compute, in float64."""

import numpy as np


def bert_self_output(inputs, symbols):
    """LayerNorm(dropout(x W^T + bias) + residual) * gamma + beta, and each row's mean and 1 / deviation."""
    x, weight = inputs["x"], inputs["weight"]
    h = x @ weight.T + inputs["bias"]
    h = np.where(inputs["drop_mask"] != 0, h * symbols["keep_scale"], 0.0) + inputs["residual"]
    mean = h.mean(axis=1)
    var = ((h - mean[:, None]) ** 2).mean(axis=1)
    rstd = 1.0 / np.sqrt(var + symbols["eps"])
    normalised = (h - mean[:, None]) * rstd[:, None]
    out = normalised * inputs["gamma"] + inputs["beta"]
    # sums of K products in float32
    small = 2.0**-22 * (symbols["K"] + 16)
    each = small * symbols["keep_scale"] * (np.abs(x) @ np.abs(weight).T + np.abs(inputs["bias"]) + 1).max(axis=1)
    scaled = (each * rstd)[:, None] * (2 + np.abs(normalised)) * np.abs(inputs["gamma"])
    return {
        "out": (out, 2.0**-10 * np.abs(out) + scaled + 1e-6),
        "mean": (mean, each),
        "rstd": (rstd, each * rstd**2 + 1e-6 * rstd),
    }
