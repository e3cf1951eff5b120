"""Decoding over a paged cache: keys lie as [blocks, heads, D / 8, tokens, 8], values as [blocks, heads, D, tokens]."""

import numpy as np


def decode(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    q, kc, vc = inputs["q"], inputs["k_cache"], inputs["v_cache"]
    tables, lengths, slopes = inputs["tables"].astype(int), inputs["lengths"].astype(int), inputs["slopes"]
    batch, heads, size = q.shape
    kv_heads = kc.shape[1]
    ratio = heads // kv_heads
    k = kc.transpose(0, 3, 1, 2, 4).reshape(kc.shape[0], 16, kv_heads, size)
    v = vc.transpose(0, 3, 1, 2)
    out = np.zeros(q.shape)
    for b in range(batch):
        n = lengths[b]
        pages = tables[b, : -(-n // 16)]
        keys = k[pages].reshape(-1, kv_heads, size)[:n]
        values = v[pages].reshape(-1, kv_heads, size)[:n]
        for h in range(heads):
            s = keys[:, h // ratio] @ q[b, h] * symbols["scale"] + slopes[h] * (np.arange(n) - n + 1)
            p = np.exp(s - s.max())
            out[b, h] = p @ values[:, h // ratio] / p.sum()
    return out
