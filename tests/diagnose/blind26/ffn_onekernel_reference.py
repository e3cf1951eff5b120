"""x + W2 (silu(W1 xn) * (W3 xn)), the product of both rounded to half."""

import numpy as np


def ffn(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    gate, up = inputs["xn"] @ inputs["w1"].T, inputs["xn"] @ inputs["w3"].T
    hidden = gate / (1 + np.exp(-gate)) * up
    rounded = hidden.astype(np.float16).astype(np.float64)
    out = inputs["x"] + rounded @ inputs["w2"].T
    # a hidden element may be rounded the other way, and the result is rounded
    bound = 2.0**-11 * (np.abs(out) + np.sqrt((rounded**2) @ (inputs["w2"] ** 2).T)) * 1.5 + 1e-3
    return out, bound
