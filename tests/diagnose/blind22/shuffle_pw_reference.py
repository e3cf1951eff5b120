"""Grouped pointwise convolution of int8, requantised in integers, with the channels shuffled."""

import numpy as np


def unit(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    groups, cin, cout = int(symbols["G"]), int(symbols["ci"]), int(symbols["co"])
    pixels = inputs["x"].shape[0]
    x = (inputs["x"] - symbols["zi"]).reshape(pixels, groups, cin)
    w = inputs["w"].reshape(groups, cout, cin)
    total = np.einsum("pgk,gck->pgc", x, w) + inputs["bias"].reshape(groups, cout)
    rounded = total * inputs["mult"].reshape(groups, cout) + 2.0 ** (symbols["shift"] - 1)
    scaled = np.floor(rounded / 2.0 ** symbols["shift"])
    y = np.clip(scaled + symbols["zo"], symbols["zo"], 127)
    return y.transpose(0, 2, 1).reshape(pixels, groups * cout)
