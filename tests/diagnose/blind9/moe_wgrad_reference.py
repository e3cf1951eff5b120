"""Gradients of each expert's weight and bias from the rows that were routed to it, gated rows rounded to bfloat16."""

import itertools

import numpy as np


def gradients(inputs: dict[str, np.ndarray], symbols: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    x = inputs["x"][inputs["row_token"].astype(int)]
    dy = inputs["dy"] * inputs["gate"][:, None]
    starts = inputs["starts"].astype(int)
    rows = [slice(a, b) for a, b in itertools.pairwise(starts)]
    eps = 2.0**-8
    dw = np.stack([x[r].T @ dy[r] for r in rows])
    db = np.stack([dy[r].sum(axis=0) for r in rows])
    dw_bound = np.stack([np.abs(x[r]).T @ np.abs(dy[r]) for r in rows])
    db_bound = np.stack([np.abs(dy[r]).sum(axis=0) for r in rows])
    return {"dw": (dw, eps * dw_bound), "db": (db, eps * db_bound)}
