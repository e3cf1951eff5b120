"""The rows of the left operand in another order: the rows of the output must follow, bit for bit of each row's own
sums.

Rows that do not follow depend on their place: a row that no warp computes, a statistic of another row, a guessed
fragment map, a tail.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.ops.parts.epilogue import SPREAD
from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe

_LEFT = {"attention": "q", "qkt": "q", "pv": "p", "gemm": "a", "softmax": "x"}


def run(subject: Subject) -> Conclusion | None:
    """Rows permuted at random; not for a causal mask, a transposed A, or a C, a bias or a scale of rows."""
    p = subject.parameters
    spread = any(array.shape[-2:-1] not in ((), (1,)) for array in map(subject.inputs.get, SPREAD) if array is not None)
    if p.get("causal") or p.get("transpose_a") or p.get("beta") or spread:
        return None
    role = _LEFT[subject.operation]
    rows = subject.inputs[role].shape[-2]
    order = np.random.default_rng(14).permutation(rows)
    before, after = (
        subject.base_judged,
        subject.judged({role: np.ascontiguousarray(subject.inputs[role][..., order, :])}),
    )
    moved, limit = before.observed[..., order, :], before.bound[..., order, :]
    with np.errstate(invalid="ignore"):
        same = (np.abs(moved - after.observed) <= limit + after.bound) | (moved == after.observed)
    same |= np.isnan(moved) & np.isnan(after.observed)
    if same.all():
        return Conclusion(
            "right", f"rows of {role.upper()} permuted: rows of {before.role.upper()} follow, so no row's place matters"
        )
    bad = np.flatnonzero(~same.all(axis=-1).reshape(-1, rows).all(axis=0))
    detail = (
        f"{bad.size} of {rows} rows do not follow: {', '.join(map(str, bad[:12].tolist()))}"
        + (", …" if bad.size > 12 else ""),
    )
    return Conclusion(
        "wrong",
        f"rows of {role.upper()} permuted: {bad.size} of {rows} rows of {before.role.upper()} do not follow",
        ("launch", "value", "index", "layout"),
        detail,
    )


PROBE = SubjectProbe(
    "permuted-rows", "rows of the left operand permuted: do the output's rows follow?", tuple(_LEFT), run
)
