import numpy as np


def reference(inputs, symbols):
    x = inputs["x"] @ inputs["w"].T + inputs["bias"]
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
