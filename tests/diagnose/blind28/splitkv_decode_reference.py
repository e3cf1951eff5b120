import numpy as np


def partials(inputs, symbols):
    """Each split's normalised output and logsumexp."""
    q, k, v, lengths = (inputs[role] for role in ("q", "k", "v", "lens"))
    splits, chunk = int(symbols["splits"]), 64
    batch, heads, depth = q.shape
    group = heads // k.shape[2]
    out = np.zeros((batch, heads, splits, depth))
    lse = np.full((batch, heads, splits), -np.inf)
    for b in range(batch):
        length = int(lengths[b])
        chunks = (length + chunk - 1) // chunk
        step = (chunks + splits - 1) // splits * chunk
        for split in range(splits):
            start, end = split * step, min(length, (split + 1) * step)
            if start >= end:
                continue
            for h in range(heads):
                scores = k[b, start:end, h // group] @ q[b, h] * 0.125
                top = scores.max()
                e = np.exp(scores - top)
                out[b, h, split] = e @ v[b, start:end, h // group] / e.sum()
                lse[b, h, split] = top + np.log(e.sum())
    return {"part": out, "lse": lse}
