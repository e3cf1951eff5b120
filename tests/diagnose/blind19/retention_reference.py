"""Retention, chunk by chunk: operands of the products are rounded by the tolerance alone."""

import numpy as np


def retained(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    q, k, v, decay = inputs["q"], inputs["k"], inputs["v"], inputs["decay"]
    heads, steps = int(symbols["H"]), int(symbols["T"])
    out = np.zeros_like(v)
    state = np.zeros((q.shape[0], q.shape[2], v.shape[2]))
    for n in range(q.shape[0]):
        g = 2.0 ** decay[n % heads]
        at = np.arange(steps)
        age = at[:, None] - at[None, :]
        weights = np.where(age >= 0, g ** np.maximum(age, 0), 0.0)
        out[n] = (q[n] @ k[n].T * weights) @ v[n]
        state[n] = (k[n] * (g ** (steps - 1 - at))[:, None]).T @ v[n]
    return {"o": out, "state": state}
