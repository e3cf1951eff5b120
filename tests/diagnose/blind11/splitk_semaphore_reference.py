"""A B + bias; semaphores are zero again."""

import numpy as np


def linear(inputs, symbols):
    a, b, bias = inputs["a"], inputs["b"], inputs["bias"]
    out = a @ b + bias
    bound = 2.0**-10 * np.abs(out) + 2.0**-18 * (np.abs(a) @ np.abs(b) + np.abs(bias)) + 1e-7
    return {"c": (out, bound), "semaphores": (0 * inputs["semaphores"], 0.25)}
