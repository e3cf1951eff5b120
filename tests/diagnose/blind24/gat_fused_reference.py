"""Attention of a graph's nodes over their neighbours, windows of 16 rows with condensed columns."""

import numpy as np


def aggregate(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    rows, cols, starts, sources = (inputs[n].astype(int) for n in ("row_ptr", "edge_col", "win_ptr", "win_src"))
    el, er, feat = inputs["el"], inputs["er"], inputs["feat"]
    out = np.zeros(feat.shape)
    for node in range(feat.shape[0]):
        edges = cols[rows[node] : rows[node + 1]]
        if len(edges) == 0:
            continue
        src = sources[starts[node // 16] + edges]
        e = el[node][None, :] + er[src]
        e = np.where(e > 0, e, e * symbols["slope"])
        p = np.exp(e - e.max(axis=0))
        p /= p.sum(axis=0)
        out[node] = np.einsum("eh,ehf->hf", p, feat[src])
    return np.where(out > 0, out, np.expm1(np.minimum(out, 0)))
