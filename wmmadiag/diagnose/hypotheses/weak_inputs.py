"""Constant or symmetric inputs hide layout bugs: with K symmetric Q·K and Q·Kᵀ are the same.

Bad:
    for (int i = 0; i < S * D; i++) k[i] = 1.0f;          // whatever is read, it is the right number

Good:
    for (int i = 0; i < S * D; i++) k[i] = normal(random);
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.claim import Answer, NotSo
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis


def _test(evidence: Evidence) -> Answer:
    bound = evidence.run.bound
    if bound is None:
        return NotSo("undecided", "the launch did not end")
    for role, values in bound.inputs().items():
        why = _blind(values)
        if why:
            return NotSo("undecided", f"{role}: {why}; other faults may hide behind that")
    return NotSo(
        "refuted", f"the inputs ({bound.distribution}) differ from element to element, and from their transposes"
    )


def _blind(values: NDArray[Any]) -> str:
    """Why a tensor of at least two axes (rows and columns last) cannot tell right from wrong, or ""."""
    if values.ndim < 2 or min(values.shape[-2:]) < 2:
        return ""
    wide = values.astype(np.float64)
    if (wide == wide.reshape(-1)[0]).all():
        return "all elements are the same"
    if (wide == wide[..., :1, :]).all():
        return "all rows are the same"
    if (wide == wide[..., :, :1]).all():
        return "all columns are the same"
    square = wide.shape[-1] == wide.shape[-2]
    return "each matrix is its own transpose" if square and (wide == wide.swapaxes(-1, -2)).all() else ""


HYPOTHESIS = Hypothesis("weak-inputs", "the inputs cannot tell right from wrong", _test)
