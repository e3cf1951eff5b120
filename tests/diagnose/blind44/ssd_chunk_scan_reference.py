import numpy as np


def ssd_reference(inputs, symbols):
    """The recurrence, step by step; bounds from the same recurrence with magnitudes (three roundings to bf16)."""
    x, dt, a = inputs["x"], inputs["dt"], inputs["A"]
    b, c, d = inputs["B"], inputs["C"], inputs["D"]
    state = inputs["init_states"]
    _batch, length, heads, _headdim = x.shape
    per_group = heads // b.shape[2]
    b = np.repeat(b, per_group, axis=2)
    c = np.repeat(c, per_group, axis=2)

    size = np.abs(state)
    y = np.zeros(x.shape)
    y_size = np.zeros(x.shape)
    for t in range(length):
        decay = np.exp(dt[:, t] * a)[:, :, None, None]
        weighted = (dt[:, t, :, None] * b[:, t])[:, :, :, None] * x[:, t, :, None, :]
        state = decay * state + weighted
        size = decay * size + np.abs(weighted)
        y[:, t] = np.einsum("bhn,bhnp->bhp", c[:, t], state) + d[None, :, None] * x[:, t]
        y_size[:, t] = np.einsum("bhn,bhnp->bhp", np.abs(c[:, t]), size) + np.abs(d[None, :, None] * x[:, t])
    unit = 2.0**-8  # of bf16
    return {"y": (y, 2.1 * unit * y_size + 1e-5), "final_states": (state, 1.1 * unit * size + 1e-5)}
