"""Gradients of the scores and of Q from those of O, through dropout and softmax."""

import numpy as np


def backward(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    prob, mask = inputs["prob"], inputs["mask"]
    grad_p = inputs["grad_o"] @ inputs["value"].transpose(0, 2, 1)
    grad_p = np.where(mask != 0, grad_p / (1 - symbols["ratio"]), 0)
    grad_s = prob * (grad_p - (prob * grad_p).sum(axis=-1, keepdims=True))
    return {"grad_q": symbols["scale"] * (grad_s @ inputs["key"]), "grad_s": grad_s}
