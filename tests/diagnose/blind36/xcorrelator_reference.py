"""Visibilities of all pairs of receivers, the lower triangle."""

import numpy as np


def correlate(inputs, symbols):
    """V[ch, r, c] = mean over t of S[ch, r, t] · conj(S[ch, c, t]), r >= c; zeros above the diagonal."""
    samples = inputs["samples"][..., 0] + 1j * inputs["samples"][..., 1]
    products = samples @ np.conj(np.swapaxes(samples, 1, 2))
    lower = np.tril(products) / symbols["T"]
    return np.stack([lower.real, lower.imag], axis=-1)
