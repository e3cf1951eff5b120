"""A linear layer of 8-bit integers; the activations have a scale and a zero point for each token."""

import numpy as np


def linear(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    a = (inputs["qa"] - inputs["azp"][:, None]) * inputs["scale_a"][:, None]
    w = inputs["qw"] * inputs["scale_w"][:, None]
    return a @ w.T + inputs["bias"]
