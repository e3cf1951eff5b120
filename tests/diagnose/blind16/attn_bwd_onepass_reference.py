"""Gradients of causal attention from what the forward pass left: log-sum-exp, and row sums of dO O."""

import numpy as np


def backward(inputs, symbols):
    q, k, v, dout = (inputs[name] for name in ("q", "k", "v", "dout"))
    scale, s = 0.125, int(symbols["S"])
    seen = np.tril(np.ones((s, s)))
    kt, vt = k.transpose(0, 2, 1), v.transpose(0, 2, 1)
    scores = q @ kt * scale
    p = np.exp(scores - inputs["lse"][:, :, None]) * seen
    dp = dout @ vt
    ds = p * (dp - inputs["delta"][:, :, None]) * scale

    arguments = np.abs(q) @ np.abs(kt) * scale + np.abs(inputs["lse"])[:, :, None]
    p_error = p * (2.0**-20 + 2.0**-20 * arguments)
    dp_error = 2.0**-20 * (np.abs(dout) @ np.abs(vt)) + 2.0**-22 * np.abs(inputs["delta"])[:, :, None]
    ds_error = (p_error * np.abs(dp - inputs["delta"][:, :, None]) + p * dp_error) * scale + 2.0**-11 * np.abs(ds)
    p_error, ds_error = p_error + 2.0**-11 * p + 2.0**-25, ds_error + 2.0**-22 * np.abs(ds) + 2.0**-25

    def turned(x):
        return x.transpose(0, 2, 1)

    dq, dk, dv = ds @ k, turned(ds) @ q, turned(p) @ dout
    dq_bound = ds_error @ np.abs(k) + 2.0**-18 * (np.abs(ds) @ np.abs(k))
    dk_bound = turned(ds_error) @ np.abs(q) + 2.0**-18 * (turned(np.abs(ds)) @ np.abs(q)) + 2.0**-10.99 * np.abs(dk)
    dv_bound = turned(p_error) @ np.abs(dout) + 2.0**-18 * (turned(p) @ np.abs(dout)) + 2.0**-10.99 * np.abs(dv)
    return {"dq": (dq, dq_bound), "dk": (dk, dk_bound + 2.0**-24), "dv": (dv, dv_bound + 2.0**-24)}
