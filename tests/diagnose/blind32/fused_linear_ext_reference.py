import numpy as np


def fused_linear(inputs, symbols):
    x, weight, bias, residual = (inputs[name] for name in ("x", "weight", "bias", "residual"))
    v = np.einsum("bmk,bnk->bmn", x, weight) + bias[:, None, :]
    act = symbols["ACT"]
    if act == 1:
        v = np.maximum(v, 0.0)
    elif act == 2:
        v = 0.5 * v * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (v + 0.044715 * v**3)))
    elif act == 3:
        v = v / (1.0 + np.exp(-v))
    return v + residual
