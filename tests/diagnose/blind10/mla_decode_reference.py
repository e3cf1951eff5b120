"""Attention of one query per head over latents that all heads share; their first 64 dimensions are the values too."""

import numpy as np


def decode(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    q, cache = inputs["q"], inputs["kv"]
    out, lse = np.zeros((*q.shape[:2], 64)), np.zeros(q.shape[:2])
    bound, lse_bound = out.copy(), lse.copy()
    for b, length in enumerate(inputs["lengths"].astype(int)):
        rows = cache[inputs["table"][b].astype(int)].reshape(-1, 80)[:length]
        s = 0.15 * q[b] @ rows.T
        slack = 2.0**-16 * (0.15 * np.abs(q[b]) @ np.abs(rows).T + np.abs(s))
        top = s.max(axis=1, keepdims=True)
        p = np.exp(s - top)
        total = p.sum(axis=1, keepdims=True)
        lse[b] = (top + np.log(total))[:, 0]
        lse_bound[b] = slack.max(axis=1) + 2.0**-18
        p /= total
        out[b] = p @ rows[:, :64]
        bound[b] = (p * (2.0**-8 + 2 * slack)) @ np.abs(rows[:, :64]) + 2.0**-8 * np.abs(out[b])
    return {"out": (out, bound), "lse": (lse, lse_bound)}
