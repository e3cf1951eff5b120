"""A step of SGD with momentum on a linear layer, from its input and the gradient of its output."""

import numpy as np


def step(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    lr, mu, wd = 0.5, 0.9, 0.1
    factor = inputs["clip"][0] / inputs["x"].shape[0]
    g = factor * (inputs["x"].T @ inputs["dy"]) + wd * inputs["w"]
    g_bias = factor * inputs["dy"].sum(axis=0)
    v = mu * inputs["v"] + g
    v_bias = mu * inputs["bias_v"] + g_bias
    along, along_bias = v, v_bias
    if symbols["nesterov"]:
        along, along_bias = g + mu * v, g_bias + mu * v_bias
    return {"w": inputs["w"] - lr * along, "v": v, "bias": inputs["bias"] - lr * along_bias, "bias_v": v_bias}
