"""Gradients of both matrices of a LoRA branch."""

import numpy as np


def lora_backward(inputs, symbols):
    """dB += scaling · dYᵀ·H, dA += (scaling · dY·B)ᵀ·X."""
    dy, x, h, b = inputs["grad_out"], inputs["x"], inputs["h"], inputs["lora_b"]
    scaling = symbols["scaling"]
    u = scaling * (dy @ b)
    size_u = scaling * (np.abs(dy) @ np.abs(b))
    grad_b = 1.0 + scaling * (dy.T @ h)
    grad_a = 1.0 + u.T @ x
    bound_b = 2.0**-18 * (2.0 + scaling * (np.abs(dy).T @ np.abs(h)))
    bound_a = (2.0**-8.9 * np.abs(u) + 2.0**-18 * size_u).T @ np.abs(x) + 2.0**-18
    return {"grad_a": (grad_a, bound_a), "grad_b": (grad_b, bound_b)}
