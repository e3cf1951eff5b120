"""0.75 * A B + 2 * C to nearly single precision: far closer than plain TF32 comes."""

import numpy as np


def sgemm(inputs, symbols):
    a, b, c = inputs["a"], inputs["b"], inputs["c"]
    result = 0.75 * a @ b + 2 * c
    bound = 2.0**-20 * (0.75 * np.abs(a) @ np.abs(b) + 2 * np.abs(c)) + 2.0**-30
    return {"c": (result, bound)}
