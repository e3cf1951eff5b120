"""b A + c A A of a symmetric A."""

import numpy as np


def polynomial(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    a = inputs["a"]
    b, c = -4.775, 2.0315
    out = b * a + c * (a @ a)
    return {"b_out": (out, 2.0**-8 * np.abs(out) + 2.0**-18 * (abs(b) * np.abs(a) + c * np.abs(a) @ np.abs(a)))}
