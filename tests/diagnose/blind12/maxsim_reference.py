"""Sums of the largest similarity of each token of a query among those of a document; 0 for documents without any."""

import numpy as np


def maxsim(inputs, symbols):
    queries, docs = inputs["queries"], inputs["docs"]
    lengths, starts = inputs["qlens"].astype(int), inputs["doc_start"].astype(int)
    out = np.zeros((len(queries), len(starts) - 1))
    bound = np.full(out.shape, 2.0**-30)
    for n, (query, length) in enumerate(zip(queries, lengths, strict=True)):
        for d in range(len(starts) - 1):
            first, last = starts[d], starts[d + 1]
            if last > first:
                best = (query[:length] @ docs[first:last].T).max(axis=1)
                size = (np.abs(query[:length]) @ np.abs(docs[first:last]).T).max(axis=1)
                out[n, d] = best.sum()
                bound[n, d] += 2.0**-20 * (size.sum() + np.abs(best).sum())
    return {"scores": (out, bound)}
