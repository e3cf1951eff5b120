import numpy as np

CHUNK = 64


def chunk_scan(inputs, symbols):
    x, dt, bias, a = inputs["x"], inputs["dt"], inputs["dt_bias"], inputs["A"]
    b, c, states, d = inputs["B"], inputs["C"], inputs["states"], inputs["D"]
    batch, length, heads, _ = x.shape
    group = heads // b.shape[2]
    step = np.log1p(np.exp(dt + bias))
    y = np.zeros_like(x)
    size = np.zeros_like(x)
    for n in range(batch):
        for h in range(heads):
            for chunk in range(states.shape[1]):
                rows = slice(chunk * CHUNK, min((chunk + 1) * CHUNK, length))
                ch = c[n, rows, h // group]
                bh = b[n, rows, h // group]
                xh = x[n, rows, h]
                sh = step[n, rows, h]
                cum = np.cumsum(sh * a[h])
                decay = np.exp(np.minimum(cum[:, None] - cum[None, :], 0.0))
                w = np.tril(ch @ bh.T * decay * sh[None, :])
                before = np.exp(cum)[:, None] * (ch @ states[n, chunk, h].T)
                y[n, rows, h] = before + w @ xh + d[h] * xh
                size[n, rows, h] = np.abs(w) @ np.abs(xh)
    # the weights and the output are rounded to bf16, by 2^-8 of themselves at most
    return y, 2.0**-8 * (np.abs(y) + size) + 1e-4
