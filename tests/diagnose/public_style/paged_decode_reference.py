import numpy as np


def tables(symbols):
    count = int(symbols["blocks"])
    return np.random.default_rng(1).permutation(count).reshape(int(symbols["seqs"]), -1)


def lengths(symbols):
    return [int(symbols["longest"]) - 7 * i for i in range(int(symbols["seqs"]))]


def reference(inputs, symbols):
    q, kc, vc = inputs["q"], inputs["k_cache"], inputs["v_cache"]
    table, lens = inputs["block_tables"].astype(int), inputs["context_lens"].astype(int)
    seqs, heads, d = q.shape
    group = heads // kc.shape[1]
    out = np.empty_like(q)
    for s in range(seqs):
        for h in range(heads):
            k = kc[table[s], h // group].reshape(-1, d)[: lens[s]]
            v = vc[table[s], h // group].reshape(-1, d)[: lens[s]]
            x = k @ q[s, h] / np.sqrt(d)
            p = np.exp(x - x.max())
            out[s, h] = p @ v / p.sum()
    return out
