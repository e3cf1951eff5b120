"""A perceptron without biases: ReLU behind the first layer, LeakyReLU behind the hidden ones."""

import numpy as np


def half(x):
    return x.astype(np.float16).astype(np.float64)


def mlp(inputs, symbols):
    x, w = inputs["input"], inputs["weights"]
    n, layers = int(symbols["in_width"]), int(symbols["layers"])
    first = w[: 32 * n].reshape(32, n)
    hidden = w[32 * n : 32 * n + 1024 * layers].reshape(layers, 32, 32)
    last = w[32 * n + 1024 * layers :].reshape(16, 32)
    unit = 2.0**-11

    def layer(x, error, weight):
        y = x @ weight.T
        size = np.sqrt((x * x) @ (weight * weight).T)
        return y, np.sqrt((error * error) @ (weight * weight).T) * 1.5 + unit * (2 * size + 1.1 * np.abs(y))

    y, error = layer(x, np.zeros_like(x), first)
    y = half(np.maximum(y, 0))
    outs, errors = [], []
    for i in range(layers):
        y, error = layer(y, error, hidden[i])
        y = half(np.where(y > 0, y, 0.01 * y))
        outs.append(y)
        errors.append(error)
    y, error = layer(y, error, last)
    if int(symbols["act"]) == 2:
        y = 0.5 * (10 * y + np.sqrt(100 * y * y + 4)) / 10
        error = error + unit * np.abs(y) + 1e-3
    return {"hidden": (np.array(outs), np.array(errors)), "out": (y, error)}
