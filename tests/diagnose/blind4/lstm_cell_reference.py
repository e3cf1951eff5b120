"""One step of an LSTM: gates in the order i, f, g, o."""

import numpy as np


def step(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    gates = inputs["x"] @ inputs["wx"].T + inputs["h"] @ inputs["wh"].T + inputs["bias"]
    i, f, g, o = np.split(gates, 4, axis=1)
    c = inputs["c"] / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    return {"h_next": np.tanh(c) / (1 + np.exp(-o)), "c_next": c}
