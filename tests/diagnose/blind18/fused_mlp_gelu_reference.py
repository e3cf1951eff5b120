import numpy as np


def mlp(tensors, sizes):
    hidden = tensors["x"] @ tensors["w1"] + tensors["b1"]
    gelu = 0.5 * hidden * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
    hidden = gelu.astype(np.float16).astype(np.float64)
    return {"y": hidden @ tensors["w2"] + tensors["b2"]}
