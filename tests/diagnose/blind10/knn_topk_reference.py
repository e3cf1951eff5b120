"""The four nearest of each query, nearest first, the smaller id first of equally near ones."""

import numpy as np


def nearest(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, float]]:
    q, x = inputs["query"], inputs["base"]
    d = (q * q).sum(axis=1)[:, None] + inputs["base_norm"] - 2 * q @ x.T
    order = np.argsort(d, axis=1, kind="stable")[:, :4]
    return {"out_dist": (np.take_along_axis(d, order, axis=1), 0.0), "out_id": (order.astype(float), 0.0)}
