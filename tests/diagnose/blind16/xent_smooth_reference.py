"""Cross-entropy with label smoothing, and its gradient by the logits, over the first V of P columns."""

import numpy as np


def classifier(inputs, symbols):
    v, eps, dloss = int(symbols["V"]), 0.125, 8 / int(symbols["T"])
    x, target = inputs["logits"][:, :v], inputs["target"].astype(int)
    kept = target != -100
    t = np.where(kept, target, 0)
    rows = np.arange(len(t))
    top = x.max(axis=1, keepdims=True)
    e = np.exp(x - top)
    lse = top[:, 0] + np.log(e.sum(axis=1))
    loss = (1 - eps) * (lse - x[rows, t]) + eps * (lse - x.mean(axis=1))
    loss_bound = 2.0**-18 * (np.abs(lse) + np.abs(x).max(axis=1)) + 2.0**-18
    p = e / e.sum(axis=1, keepdims=True)
    hot = np.zeros_like(p)
    hot[rows, t] = 1 - eps
    grad = np.zeros_like(inputs["logits"])
    bound = np.zeros_like(grad)
    grad[:, :v] = (p - hot - eps / v) * dloss * kept[:, None]
    spread = (top - x) * 2.0**-22 + 2.0**-18
    bound[:, :v] = (2.0**-7.99 * np.abs(grad[:, :v]) + (p * spread + (hot + eps / v) * 2.0**-21) * dloss) * kept[
        :, None
    ]
    return {"logits": (grad, bound), "loss": (loss * kept, loss_bound * kept)}
