"""Attention of one query per sequence and head over the pages that a table names."""

import numpy as np


def decoded(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    q, keys, values = inputs["q"], inputs["k"], inputs["v"]
    tables, lengths = inputs["tables"].astype(int), inputs["lengths"].astype(int)
    groups = q.shape[1] // keys.shape[2]
    out = np.zeros_like(q)
    for seq, length in enumerate(lengths):
        k = np.concatenate(keys[tables[seq]])[:length].repeat(groups, axis=1)
        v = np.concatenate(values[tables[seq]])[:length].repeat(groups, axis=1)
        scores = np.einsum("hd,thd->ht", q[seq], k) / np.sqrt(q.shape[2])
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[seq] = np.einsum("ht,thd->hd", p / p.sum(axis=1, keepdims=True), v)
    return out
