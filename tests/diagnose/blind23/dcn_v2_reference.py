"""Modulated deformable convolution with a 3 x 3 kernel, channels last."""

import numpy as np


def corner(image: np.ndarray, y: np.ndarray, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    h, w = image.shape[:2]
    inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
    values = image[np.clip(y, 0, h - 1), np.clip(x, 0, w - 1)]
    return values * (weight * inside)[:, :, None]


def forward(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    x, offset, mask, w = inputs["x"], inputs["offset"], inputs["mask"], inputs["w"]
    st, pad, dil = int(symbols["st"]), int(symbols["pad"]), int(symbols["dil"])
    n, ho, wo = offset.shape[:3]
    c = x.shape[3]
    out = np.zeros((n, ho, wo, w.shape[1])) + inputs["bias"]
    for b in range(n):
        for tap in range(9):
            y = np.arange(ho)[:, None] * st - pad + tap // 3 * dil + offset[b, :, :, 2 * tap]
            z = np.arange(wo)[None, :] * st - pad + tap % 3 * dil + offset[b, :, :, 2 * tap + 1]
            y0, z0 = np.floor(y).astype(int), np.floor(z).astype(int)
            ly, lz = y - y0, z - z0
            col = corner(x[b], y0, z0, (1 - ly) * (1 - lz)) + corner(x[b], y0, z0 + 1, (1 - ly) * lz)
            col = col + corner(x[b], y0 + 1, z0, ly * (1 - lz)) + corner(x[b], y0 + 1, z0 + 1, ly * lz)
            out[b] += (col * mask[b, :, :, tap, None]) @ w[tap * c : tap * c + c]
    return out
