"""The entry of largest cosine similarity."""

import numpy as np


def best(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    probes, gallery = inputs["probes"], inputs["gallery"]
    probes = probes / np.sqrt((probes**2).sum(axis=1, keepdims=True))
    gallery = gallery / np.sqrt((gallery**2).sum(axis=1, keepdims=True))
    cosine = probes @ gallery.T
    score = cosine.max(axis=1)
    index = np.where(score >= symbols["thr"], cosine.argmax(axis=1), -1)
    return {"score": score, "index": index}
