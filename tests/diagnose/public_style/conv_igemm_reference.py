import numpy as np


def reference(inputs, symbols):
    x, f = inputs["input"], inputs["filter"]
    p = int(symbols["pad"])
    u = int(symbols["stride"])
    x = np.pad(x, ((0, 0), (p, p), (p, p), (0, 0)))
    k, r, s, _c = f.shape
    rows = (x.shape[1] - r) // u + 1
    cols = (x.shape[2] - s) // u + 1
    out = np.zeros((x.shape[0], rows, cols, k))
    for i in range(r):
        for j in range(s):
            out += x[:, i : i + u * rows : u, j : j + u * cols : u, :][:, :rows, :cols] @ f[:, i, j, :].T
    return np.maximum(out + inputs["bias"], 0)
