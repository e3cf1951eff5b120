"""Projection to q, k and v, rotation of q and k, and what the caches hold afterwards."""

import numpy as np


def prologue(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    heads, kv, size = int(symbols["H"]), int(symbols["KV"]), int(symbols["P"])
    x = inputs["x"] @ inputs["w"].T + inputs["bias"]
    x = x.reshape(x.shape[0], heads + 2 * kv, 64)
    table = inputs["table"][inputs["positions"].astype(int)][:, None, :]
    cos, sin = table[..., :32], table[..., 32:]
    first, second = x[..., :32], x[..., 32:]
    turned = np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=2)
    k_cache, v_cache = inputs["k_cache"].copy(), inputs["v_cache"].copy()
    for token, slot in enumerate(inputs["slots"].astype(int)):
        if slot >= 0:
            k_cache[slot // size, :, slot % size] = turned[token, heads : heads + kv]
            v_cache[slot // size, :, :, slot % size] = x[token, heads + kv :]
    return {"q": turned[:, :heads], "k_cache": k_cache, "v_cache": v_cache}
