"""torch.nn.Bilinear."""

import numpy as np


def bilinear(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> np.ndarray:
    left = np.einsum("bi,oij->boj", inputs["x1"], inputs["w"])
    return np.einsum("boj,bj->bo", left, inputs["x2"]) + inputs["bias"]
