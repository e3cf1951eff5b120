"""Attention within windows of 7 x 7 of a cyclically shifted image, with relative position bias and Swin's mask."""

import numpy as np


def attend(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    ws, shift = 7, int(symbols["shift"])
    images, height, width, _, heads, dim = inputs["qkv"].shape
    x = np.roll(inputs["qkv"], (-shift, -shift), axis=(1, 2))
    x = x.reshape(images, height // ws, ws, width // ws, ws, 3, heads, dim)
    q, k, v = x.transpose(5, 0, 1, 3, 6, 2, 4, 7).reshape(3, images, -1, heads, ws * ws, dim)

    def slabs(size: int) -> np.ndarray:
        at = np.arange(size)
        return np.where(at < size - ws, 0, np.where(at < size - shift, 1, 2))

    y, z = np.divmod(np.arange(ws * ws), ws)
    pair = (y[:, None] - y + ws - 1) * (2 * ws - 1) + z[:, None] - z + ws - 1
    score = q @ k.swapaxes(-1, -2) / np.sqrt(dim) + inputs["bias_table"][pair].transpose(2, 0, 1)
    if shift:
        region = slabs(height)[:, None] * 3 + slabs(width)
        region = region.reshape(height // ws, ws, width // ws, ws).swapaxes(1, 2).reshape(-1, 1, ws * ws)
        score = score - 100.0 * (region[..., :, None] != region[..., None, :])
    p = np.exp(score - score.max(axis=-1, keepdims=True))
    o = p / p.sum(axis=-1, keepdims=True) @ v
    o = o.reshape(images, height // ws, width // ws, heads, ws, ws, dim).transpose(0, 1, 4, 2, 5, 3, 6)
    return np.roll(o.reshape(images, height, width, heads, dim), (shift, shift), axis=(1, 2))
