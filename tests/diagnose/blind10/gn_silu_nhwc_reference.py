"""Group norm of an image with the channels last, and SiLU of it where that is asked for."""

import numpy as np


def group_norm(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    x = inputs["x"]
    n, p, c = x.shape
    g = int(symbols["G"])
    grouped = x.reshape(n, p, g, c // g)
    mean = grouped.mean(axis=(1, 3), keepdims=True)
    rstd = 1 / np.sqrt(((grouped - mean) ** 2).mean(axis=(1, 3), keepdims=True) + 1e-3)
    hat = ((grouped - mean) * rstd).reshape(x.shape)
    y = hat * inputs["gamma"] + inputs["beta"]
    slack = 2.0**-19 * (np.abs(hat * inputs["gamma"]) + np.abs(inputs["beta"]) + np.abs(inputs["gamma"]))
    if symbols["silu"]:
        slack = 1.1 * slack + 2.0**-20 * np.abs(y)
        y = y / (1 + np.exp(-y))
    slack = slack + 2.0**-11 * np.abs(y) + 2.0**-25
    size = np.abs(grouped).mean(axis=(1, 3))
    return {
        "y": (y, slack),
        "mean": (mean[:, 0, :, 0], 2.0**-19 * size),
        "rstd": (rstd[:, 0, :, 0], 2.0**-18 * rstd[:, 0, :, 0]),
    }
