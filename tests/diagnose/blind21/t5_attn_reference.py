"""Attention with T5's bias by bucket of relative position."""

import numpy as np


def buckets(relative: np.ndarray, bidirectional: bool) -> np.ndarray:
    count = 32
    start = np.zeros(relative.shape, dtype=int)
    if bidirectional:
        count = 16
        start = np.where(relative > 0, 16, 0)
        dist = np.abs(relative)
    else:
        dist = np.maximum(-relative, 0)
    exact = count // 2
    far = exact + np.floor(np.log(np.maximum(dist, 1) / exact) / np.log(128 / exact) * (count - exact) + 1e-9).astype(
        int
    )
    return start + np.where(dist < exact, dist, np.minimum(far, count - 1))


def attention(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    q, k, v, table = inputs["q"], inputs["k"], inputs["v"], inputs["table"]
    lengths = inputs["lengths"].astype(int)
    batch, heads, seq, _ = q.shape
    i = np.arange(seq)
    relative = i[None, :] - i[:, None]
    both = bool(symbols["both"])
    which = buckets(relative, both)
    out = np.zeros(q.shape)
    for b in range(batch):
        seen = np.broadcast_to(i < lengths[b], (seq, seq))
        if not both:
            seen = seen & (relative <= 0)
        for h in range(heads):
            s = np.where(seen, q[b, h] @ k[b, h].T + table[which, h], -np.inf)
            p = np.exp(s - s.max(axis=1, keepdims=True))
            out[b, h] = p @ v[b, h] / p.sum(axis=1, keepdims=True)
    return out
