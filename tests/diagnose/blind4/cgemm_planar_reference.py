"""A·B or conj(A)·B of complex matrices whose first axis is the part: real, imaginary."""

import numpy as np


def product(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    (ar, ai), (br, bi) = inputs["a"], inputs["b"]
    if symbols["conj"]:
        ai = -ai
    size = (np.abs(ar) + np.abs(ai)) @ (np.abs(br) + np.abs(bi))
    return np.stack([ar @ br - ai @ bi, ar @ bi + ai @ br]), np.stack([size, size]) * 2.0**-19
