"""Circular convolution of 256 points by the filter's spectrum, its real part, and a skip connection."""

import numpy as np


def convolve(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    u = inputs["u"]
    spectrum = inputs["kf"][..., 0] + 1j * inputs["kf"][..., 1]
    y = np.fft.ifft(np.fft.fft(u, 256, axis=-1) * spectrum, axis=-1).real
    return y[..., : u.shape[-1]] + inputs["skip"][:, None] * u
