"""Colours and densities of points: positional encoding and three layers."""

import numpy as np


def half(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(np.float64)


def field(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    x = inputs["x"]
    parts = [x]
    for octave in range(5):
        parts += [np.sin(np.pi * 2.0**octave * x), np.cos(np.pi * 2.0**octave * x)]
    encoded = half(np.concatenate(parts, axis=1))
    hidden = half(np.maximum(encoded @ inputs["w0"][: encoded.shape[1]], 0))
    hidden = half(np.maximum(hidden @ inputs["w1"], 0))
    out = half(hidden @ inputs["w2"])[:, :4]
    density = np.log1p(np.exp(out[:, 3:] + symbols["bias"]))
    return np.concatenate([1 / (1 + np.exp(-out[:, :3])), density], axis=1)
