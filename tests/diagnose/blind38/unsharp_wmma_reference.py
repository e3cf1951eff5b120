"""Unsharp masking with a separable filter, borders replicated."""

import numpy as np


def unsharp(inputs, symbols):
    """out = img + amount · (img − blur), each plane on its own."""
    image = inputs["img"].astype(np.float64)
    taps = inputs["taps"].astype(np.float16).astype(np.float64)
    radius = symbols["radius"]
    height, width = image.shape[1:]
    padded = np.pad(image, ((0, 0), (radius, radius), (radius, radius)), mode="edge")
    rows = sum(taps[i] * padded[:, :, i : i + width] for i in range(2 * radius + 1))
    blur = sum(taps[i] * rows[:, i : i + height] for i in range(2 * radius + 1))
    return image + symbols["amount"] * (image - blur)
