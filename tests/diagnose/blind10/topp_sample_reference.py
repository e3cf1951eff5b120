"""The token that a coin picks of the likeliest ones: at most top_k, and no more than make up top_p of the mass."""

import numpy as np


def sample(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rows, vocab = inputs["logits"].shape
    token, logprob, kept = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    token_bound, kept_bound, logprob_bound = np.zeros(rows), np.zeros(rows), np.full(rows, 2.0**-14)
    for r in range(rows):
        x = inputs["logits"][r] / inputs["temperature"][r]
        p = np.exp(x - x.max())
        p /= p.sum()
        order = np.argsort(-p, kind="stable")
        p = p[order]
        total = np.cumsum(p)
        enough = np.flatnonzero(total >= inputs["top_p"][r])
        cut = int(min(inputs["top_k"][r], vocab, enough[0] + 1 if len(enough) else vocab))
        drawn = inputs["coin"][r] * total[cut - 1]
        above = np.flatnonzero(total[:cut] > drawn)
        pick = int(above[0]) if len(above) else cut - 1
        token[r], logprob[r], kept[r] = order[pick], np.log(p[pick] / total[cut - 1]), cut
        if np.abs(total - inputs["top_p"][r]).min() < 1e-6 or np.abs(total[:cut] - drawn).min() < 1e-6:
            token_bound[r], kept_bound[r], logprob_bound[r] = vocab, 1, 100
    return {"next_token": (token, token_bound), "logprob": (logprob, logprob_bound), "kept": (kept, kept_bound)}
