"""One query token over pieces of its cache: each piece's normalised output and its log-sum-exp."""

import numpy as np


def pieces(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    q, k, v, lengths = (inputs[name] for name in ("q", "k_cache", "v_cache", "seqlens"))
    splits, group = int(symbols["NS"]), q.shape[1] // k.shape[2]
    o = np.zeros((splits, *q.shape))
    lse = np.full((splits, *q.shape[:2]), -np.inf)
    for b in range(q.shape[0]):
        length = int(lengths[b])
        chunk = (length + 64 * splits - 1) // (64 * splits) * 64
        for split in range(splits):
            first, last = split * chunk, min(split * chunk + chunk, length)
            if first >= last:
                continue
            for h in range(q.shape[1]):
                s = 0.125 * k[b, first:last, h // group] @ q[b, h]
                top = s.max()
                p = np.exp(s - top)
                o[split, b, h] = p @ v[b, first:last, h // group] / p.sum()
                lse[split, b, h] = top + np.log(p.sum())
    return {"o_part": o, "lse_part": lse}
