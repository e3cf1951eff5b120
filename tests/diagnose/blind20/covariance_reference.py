"""Sample covariance and mean."""

import numpy as np


def covariance(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, np.ndarray]:
    x = inputs["x"]
    mean = x.mean(axis=0)
    centred = x - mean
    return {"cov": centred.T @ centred / (x.shape[0] - symbols["ddof"]), "mean": mean}
