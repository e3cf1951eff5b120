"""One step of k-means: nearest centroids (the first of several), and the sums of their points."""

import numpy as np


def kmeans(inputs, symbols):
    x, c = inputs["points"], inputs["centroids"]
    dist = (x * x).sum(1)[:, None] - 2 * (x @ c.T) + (c * c).sum(1)[None, :]
    labels = dist.argmin(axis=1)
    one_hot = (labels[:, None] == np.arange(c.shape[0])[None, :]).astype(np.float64)
    return {
        "labels": labels.astype(np.float64),
        "min_dist": dist.min(axis=1),
        "new_sums": one_hot.T @ x,
        "new_counts": one_hot.sum(axis=0),
    }
