"""One query per head over the first keys of its sequence; keys and values are bytes times their token's scale."""

import numpy as np


def decode(inputs, symbols):
    q = inputs["q"]
    group = q.shape[1] // inputs["k_cache"].shape[1]
    k, v = (np.repeat(inputs[f"{x}_cache"] * inputs[f"{x}_scale"][..., None], group, axis=1) for x in "kv")
    s = 0.125 * np.einsum("bhd,bhtd->bht", q, k)
    slack = 2.0**-10.9 * 0.125 * np.einsum("bhd,bhtd->bht", np.abs(q), np.abs(k)) + 2.0**-17 * np.abs(s)
    seen = np.arange(k.shape[2]) < inputs["seq_lens"][:, None, None]
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p = p / p.sum(axis=-1, keepdims=True)
    worst = np.where(seen, slack, 0).max(axis=-1)[..., None]
    o = np.einsum("bht,bhtd->bhd", p, v)
    size = np.einsum("bht,bhtd->bhd", p + 2.0**-14 / max(1, k.shape[2]), np.abs(v))
    return {"out": (o, (2.0**-9.5 + 2 * worst) * size + 2.0**-11 * np.abs(o) + 2.0**-20)}
