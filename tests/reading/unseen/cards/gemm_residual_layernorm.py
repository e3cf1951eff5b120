import numpy as np


def output(inputs, symbols):
    """LayerNorm(x @ W^T + bias + residual) over the last axis."""
    h = inputs["x"] @ inputs["weight"].T + inputs["bias"] + inputs["residual"]
    centred = h - h.mean(axis=1, keepdims=True)
    normalised = centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5)
    return normalised * inputs["gamma"] + inputs["beta"]
