"""Negative log-likelihood under a mixture of 16 isotropic Gaussians in two dimensions, and responsibilities."""

import numpy as np


def mixture(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    z = inputs["hidden"] @ inputs["weight"] + inputs["bias"]
    logits, mean_x, mean_y, width = z[:, :16], z[:, 16:32], z[:, 32:48], z[:, 48:]
    sigma = np.log1p(np.exp(width)) + 1e-2
    log_pi = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    target = inputs["target"]
    square = ((target[:, :1] - mean_x) ** 2 + (target[:, 1:] - mean_y) ** 2) / sigma**2
    joint = log_pi - 0.5 * square - 2 * np.log(sigma) - np.log(2 * np.pi)
    top = joint.max(axis=1, keepdims=True)
    total = np.exp(joint - top).sum(axis=1, keepdims=True)
    return {"nll": -(top + np.log(total))[:, 0], "resp": np.exp(joint - top) / total}
