"""Batched products of small complex matrices, the second one conjugated and transposed."""

import numpy as np


def products(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    a = inputs["a"][..., 0] + 1j * inputs["a"][..., 1]
    b = inputs["b"][..., 0] + 1j * inputs["b"][..., 1]
    c = a @ np.conj(np.swapaxes(b, 1, 2))
    traces = np.trace(c, axis1=1, axis2=2)
    c = c * inputs["scale"][:, None, None]
    return {"c": np.stack([c.real, c.imag], axis=-1), "traces": np.stack([traces.real, traces.imag], axis=-1)}
