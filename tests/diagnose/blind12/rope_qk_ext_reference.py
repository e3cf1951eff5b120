"""Scores of queries and keys rotated by their positions, causal from the bottom right corner."""

import numpy as np


def bf16(x):
    m, e = np.frexp(x)
    return np.ldexp(np.rint(m * 256) / 256, e)


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    c, s = cos[None, :, None, :], sin[None, :, None, :]
    x0, x1 = x[..., :half], x[..., half:]
    return bf16(np.concatenate([x0 * c - x1 * s, x1 * c + x0 * s], axis=-1))


def scores(inputs, symbols):
    q, k = inputs["q"], inputs["k"]
    past = k.shape[1] - q.shape[1]
    q = rotated(q, inputs["cos"][past:], inputs["sin"][past:])
    k = rotated(k, inputs["cos"], inputs["sin"])
    k = np.repeat(k, q.shape[2] // k.shape[2], axis=2)
    scale = q.shape[-1] ** -0.5
    s = scale * np.einsum("bihd,bjhd->bhij", q, k)
    bound = scale * 2.0**-9 * np.einsum("bihd,bjhd->bhij", np.abs(q), np.abs(k)) + 2.0**-20
    i, j = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])[None, :]
    return {"scores": (np.where(j > i + past, -10000.0, s), bound)}
