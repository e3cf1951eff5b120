import numpy as np


def swiglu(inputs, symbols):
    """silu(x Wg) * (x Wu), W = [Wg | Wu]."""
    gate, up = np.split(inputs["x"] @ inputs["w"], 2, axis=1)
    return gate / (1 + np.exp(-gate)) * up
