import numpy as np


def reference(inputs, symbols):
    return np.maximum(inputs["x"] @ inputs["w"].T + inputs["bias"], 0)
