"""3-D convolution, bias, ReLU, residual."""

import numpy as np


def conv3d(inputs, symbols):
    """y = relu(alpha · conv(x, w) + bias) + residual, NDHWC and KTRSC."""
    x, w = inputs["x"], inputs["w"]
    pads = [(0, 0)] + [(symbols[name],) * 2 for name in ("pad_d", "pad_h", "pad_w")] + [(0, 0)]
    padded = np.pad(x, pads)
    sd, sh, sw = symbols["stride_d"], symbols["stride_h"], symbols["stride_w"]
    z, p, q = symbols["Z"], symbols["P"], symbols["Q"]
    total = 0.0
    size = 0.0
    for t in range(w.shape[1]):
        for r in range(w.shape[2]):
            for s in range(w.shape[3]):
                part = padded[:, t : t + z * sd : sd, r : r + p * sh : sh, s : s + q * sw : sw][:, :z, :p, :q]
                total = total + part @ w[:, t, r, s].T
                size = size + np.abs(part) @ np.abs(w[:, t, r, s]).T
    alpha = symbols["alpha"]
    y = np.maximum(alpha * total + inputs["bias"], 0.0) + inputs["residual"]
    return y, 2.0**-8 * np.abs(y) + 2.0**-18 * (
        alpha * size + np.abs(inputs["bias"]) + np.abs(inputs["residual"])
    ) + 1e-30
