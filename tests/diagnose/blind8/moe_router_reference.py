"""Sigmoid scores of experts; the three with the largest biased score, their weights, and how often each was taken."""

import numpy as np


def route(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    score = 1 / (1 + np.exp(-inputs["hidden"] @ inputs["gate"].T))
    index = np.argsort(-(score + inputs["correction_bias"]), axis=1, kind="stable")[:, :3]
    chosen = np.take_along_axis(score, index, axis=1)
    return {
        "topk_weight": 2.5 * chosen / chosen.sum(axis=1, keepdims=True),
        "topk_index": index,
        "expert_count": np.bincount(index.reshape(-1), minlength=score.shape[1]),
    }
