"""dK and dV of attention with grouped query heads, from given log-sum-exps and row sums of dO * O."""

import numpy as np


def bf16(x: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32).astype(np.float64)


def gradients(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    q, k, v, do = inputs["q"], inputs["k"], inputs["v"], inputs["do"]
    lse, delta = inputs["lse"], inputs["delta"]
    batches, sq, heads, _ = q.shape
    sk, heads_k = k.shape[1], k.shape[2]
    ratio = heads // heads_k
    dk, dv = np.zeros(k.shape), np.zeros(v.shape)
    seen = np.ones((sq, sk), dtype=bool)
    if symbols["causal"]:
        seen = np.tril(seen)
    for b in range(batches):
        for h in range(heads):
            g = h // ratio
            s = q[b, :, h] @ k[b, :, g].T * symbols["scale"]
            p = np.where(seen, np.exp(s - lse[b, h][:, None]), 0.0)
            ds = p * (do[b, :, h] @ v[b, :, g].T - delta[b, h][:, None])
            dv[b, :, g] += bf16(p).T @ do[b, :, h]
            dk[b, :, g] += bf16(ds).T @ q[b, :, h] * symbols["scale"]
    return {"dk": dk, "dv": dv}
