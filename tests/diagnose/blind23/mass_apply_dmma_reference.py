"""Y + B^T D B X for each element, the one-dimensional operator applied in each direction."""

import numpy as np


def apply(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    b = inputs["b"]
    values = np.einsum("ezyx,xp,yq,zr->erqp", inputs["x"], b, b, b, optimize=True) * inputs["d"]
    return inputs["y"] + np.einsum("erqp,xp,yq,zr->ezyx", values, b, b, b, optimize=True)
