"""softmax(scale * q K^T) V for one query per sequence, whose keys and values lie in the blocks of a table."""

import numpy as np


def decode(inputs, symbols):
    q, k_cache, v_cache = inputs["q"], inputs["k_cache"], inputs["v_cache"]
    tables, lens = inputs["block_tables"].astype(int), inputs["context_lens"].astype(int)
    group = symbols["Hq"] // symbols["Hkv"]
    out, bound = np.zeros(q.shape), np.zeros(q.shape)
    for n, length in enumerate(lens):
        for h in range(symbols["Hq"]):
            blocks = tables[n, : -(-length // 16)]
            k = k_cache[blocks, h // group].reshape(-1, 64)[:length]
            v = v_cache[blocks, h // group].reshape(-1, 64)[:length]
            s = 0.125 * k @ q[n, h]
            p = np.exp(s - s.max())
            p /= p.sum()
            out[n, h] = p @ v
            bound[n, h] = 2.0**-10 * (p @ np.abs(v)) + 2.0**-10 * np.abs(out[n, h]) + 2.0**-20
    return {"out": (out, bound)}
