"""Softmax of a linear layer's rows, divided by a temperature, and the class of the largest probability."""

import numpy as np


def classify(inputs, symbols):
    x, w, bias = inputs["x"], inputs["weight"], inputs["bias"]
    logits = (x @ w.T + bias) / 4
    slack = 2.0**-19 * (np.abs(x) @ np.abs(w).T + np.abs(bias)) / 4
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = e / e.sum(axis=1, keepdims=True)
    bound = probs * (2 * slack.max(axis=1, keepdims=True) + 2.0**-17) + 2.0**-40
    return {"probs": (probs, bound), "prediction": (logits.argmax(axis=1), 0)}
