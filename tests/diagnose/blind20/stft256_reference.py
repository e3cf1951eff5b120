"""Short-time Fourier transform of 256 points; rounds to half where the kernel does."""

import numpy as np


def half(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32).astype(np.float16).astype(np.float64)


def stft(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    frames, hop, length = int(symbols["F"]), int(symbols["hop"]), int(symbols["L"])
    long = np.zeros(frames * hop + 256)
    long[:length] = inputs["signal"][:length]
    i = np.arange(16)
    w16 = np.exp(-2j * np.pi * np.outer(i, i) / 16)
    w16 = half(w16.real) + 1j * half(w16.imag)
    w256 = np.exp(-2j * np.pi * np.outer(i, i) / 256)
    out = np.zeros((frames, 129, 2))
    for f in range(frames):
        x = half(long[f * hop : f * hop + 256] * inputs["window"]).reshape(16, 16)
        y = (w16 @ x) * w256
        y = half(y.real) + 1j * half(y.imag)
        z = (y @ w16).T.reshape(256)[:129]
        out[f, :, 0], out[f, :, 1] = z.real * symbols["gain"], z.imag * symbols["gain"]
    return out
