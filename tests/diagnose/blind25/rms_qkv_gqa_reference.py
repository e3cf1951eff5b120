"""RMSNorm and the projection to queries, keys and values of grouped heads, each head apart, queries scaled."""

import numpy as np


def bf16(x: np.ndarray) -> np.ndarray:
    """Rounded to 8 significant bits, ties to even."""
    m, e = np.frexp(x)
    return np.ldexp(np.rint(m * 256), e - 8)


def project(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    x, gamma, w = inputs["x"], inputs["gamma"], inputs["wqkv"]
    batch, seq, heads, kv = (int(symbols[n]) for n in ("B", "S", "H", "Hkv"))
    xn = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + symbols["eps"]) * gamma
    out = bf16(xn) @ w.T
    # normalised values that f32 may round the other way, and the sums' rounding
    slack = 1e-4 * (np.abs(xn) @ np.abs(w).T)

    def heads_of(part: np.ndarray, n: int) -> np.ndarray:
        return part.reshape(batch, seq, n, 32).transpose(0, 2, 1, 3)

    result = {}
    at = 0
    for name, n, factor in (("q", heads, symbols["q_scale"]), ("k", kv, 1.0), ("v", kv, 1.0)):
        value = heads_of(out[:, at : at + n * 32], n) * factor
        bound = heads_of(slack[:, at : at + n * 32], n) * factor
        result[name] = (value, bound + np.abs(value) * 2**-8)
        at += n * 32
    return result
