"""Retention in chunks of 32 steps; rounds to half where the kernel does."""

import numpy as np


def half(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32).astype(np.float16).astype(np.float64)


def retention(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    batch, heads, steps, _ = q.shape
    out, final = np.zeros(v.shape), np.zeros(inputs["initial"].shape)
    for b in range(batch):
        for h in range(heads):
            g = np.exp2(inputs["gamma"][h])
            state = inputs["initial"][b, h]
            for t in range(0, steps, 32):
                qc, kc, vc = q[b, h, t : t + 32] * symbols["scale"], k[b, h, t : t + 32], v[b, h, t : t + 32]
                i = np.arange(qc.shape[0])
                decays = np.where(i[:, None] >= i, g ** np.maximum(i[:, None] - i, 0), 0.0)
                a = half(half(qc) @ kc.T * decays)
                out[b, h, t : t + 32] = a @ vc + half(qc * g ** (i + 1)[:, None]) @ half(state)
                state = g ** len(i) * state + half(kc * g ** (len(i) - 1 - i)[:, None]).T @ vc
            final[b, h] = state
    return {"o": out, "final": final}
