"""Queries and keys turned by their positions' angles, in halves of the first R elements; keys and values into slots."""

import numpy as np


def rotate_and_cache(inputs, symbols):
    rot, page = int(symbols["R"]), int(symbols["P"])
    half = rot // 2
    angles = inputs["cos_sin_cache"][inputs["positions"].astype(int)]
    cos, sin = angles[:, None, :half], angles[:, None, half:]

    def turned(x):
        out, slack = x.copy(), np.zeros_like(x)
        a, b = x[..., :half], x[..., half:rot]
        out[..., :half], out[..., half:rot] = a * cos - b * sin, b * cos + a * sin
        slack[..., :half] = 2.0**-22 * (np.abs(a * cos) + np.abs(b * sin))
        slack[..., half:rot] = 2.0**-22 * (np.abs(b * cos) + np.abs(a * sin))
        return out, slack + 2.0**-10.99 * np.abs(out) + 2.0**-24

    query, query_bound = turned(inputs["query"])
    key, key_bound = turned(inputs["key"])
    k_cache, v_cache = inputs["k_cache"].copy(), inputs["v_cache"].copy()
    k_cache_bound = np.zeros_like(k_cache)
    for token, slot in enumerate(inputs["slot_mapping"].astype(int)):
        if slot >= 0:
            k_cache[slot // page, slot % page], v_cache[slot // page, slot % page] = key[token], inputs["value"][token]
            k_cache_bound[slot // page, slot % page] = key_bound[token]
    return {
        "query": (query, query_bound),
        "key": (key, key_bound),
        "k_cache": (k_cache, k_cache_bound),
        "v_cache": (v_cache, 0),
    }
