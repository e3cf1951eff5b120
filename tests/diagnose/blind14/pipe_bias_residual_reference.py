"""relu(x w + b) + r."""

import numpy as np


def block(inputs, symbols):
    x, w = inputs["x"], inputs["w"]
    y = np.maximum(x @ w + inputs["bias"], 0) + inputs["residual"]
    bound = 2.0**-18 * (np.abs(x) @ np.abs(w) + np.abs(inputs["bias"])) + 2.0**-10.9 * np.abs(y) + 2.0**-22
    return {"y": (y, bound)}
