"""Rows that see no key: NaN, or a weight for every masked key."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from wmmadiag.diagnose.faults.model import Candidate, Doubles
from wmmadiag.diagnose.faults.problem import Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model


@fault_model("attention", rank=5)
def rows_without_keys(problem: Problem) -> Iterator[Candidate]:
    """0/0 where a row has no key, or exp(0) = 1 for each key that a finite number masks."""
    if not problem.parameters["causal"]:
        return
    keys = problem.arrays["k"].shape[2]
    if problem.rows(problem.leads[0], np.zeros(1, np.intp)).allowed.any():
        return  # the first row sees the least
    yield Candidate("masked-row", "masked-row-nan", "rows without a key are 0/0", partial(_filled, 0))
    for padded in dict.fromkeys((keys, *(-(-keys // tile) * tile for tile in (16, 32, 64, 128)))):
        yield Candidate(
            "masked-row",
            "masked-row-mean",
            "a row without a key gives every masked key the weight 1"
            + (f", {padded - keys} keys past the end included" if padded != keys else ""),
            partial(_filled, padded),
            {"keys": padded},
        )


def _filled(keys: int, rows: Rows) -> Doubles:
    """Rows without a key: NaN for keys = 0, else the sum of all values over that count."""
    values = rows.values
    assert values is not None
    instead = values.sum(axis=0) / keys if keys else np.full(values.shape[1], np.nan)
    return np.where(rows.allowed.any(axis=1, keepdims=True), rows.output, instead)
