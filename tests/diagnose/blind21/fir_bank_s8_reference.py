"""A bank of decimating FIR filters, rounded, shifted, saturated."""

import numpy as np


def bank(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    x, h, gain = inputs["x"], inputs["h"], inputs["gain"]
    taps, decim, lead, shift = (int(symbols[n]) for n in ("taps", "decim", "lead", "shift"))
    streams, samples = x.shape
    outputs = -(-samples // decim)
    long = np.zeros((streams, taps + outputs * decim + lead))
    long[:, taps : taps + samples] = x
    acc = np.zeros((streams, h.shape[0], outputs))
    for k in range(taps):
        at = taps + np.arange(outputs) * decim - k + lead
        acc += h[None, :, k, None] * long[:, None, at]
    scaled = acc * gain[None, :, None]
    rounded = np.floor((scaled + (2 ** (shift - 1) if shift else 0)) / 2**shift)
    return np.clip(rounded, -32768, 32767)
