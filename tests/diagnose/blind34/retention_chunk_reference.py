"""Retention: S_t = gamma · S_{t-1} + k_t ⊗ v_t, o_t = scale · q_t · S_t, gamma = 1 − 2^(−5 − head).

In its parallel form.
"""

import numpy as np


def retention(tensors, symbols):
    q, k, v, h0 = (tensors[role] for role in ("q", "k", "v", "h0"))
    heads, t, d = q.shape[1], q.shape[2], q.shape[3]
    if not symbols["init"]:
        h0 = np.zeros_like(h0)
    scale = 1 / np.sqrt(d)
    gamma = (1 - 2.0 ** (-5 - np.arange(heads)))[None, :, None, None]
    steps = np.arange(t)
    distance = steps[:, None] - steps[None, :]
    decay = np.where(distance >= 0, gamma ** np.maximum(distance, 0), 0)
    from_state = gamma ** (steps + 1)[:, None]
    to_end = gamma ** (t - 1 - steps)[:, None]

    def forward(q, k, v, h0):
        o = (scale * (q @ np.swapaxes(k, -1, -2)) * decay) @ v + scale * from_state * (q @ h0)
        ht = gamma**t * h0 + np.swapaxes(k, -1, -2) @ (v * to_end)
        return o, ht

    o, ht = forward(q, k, v, h0)
    o_size, ht_size = forward(np.abs(q), np.abs(k), np.abs(v), np.abs(h0))
    return {"o": (o, o_size * 2.0**-10 + 2.0**-24), "ht": (ht, ht_size * 2.0**-11 * 1.05 + 2.0**-24)}
