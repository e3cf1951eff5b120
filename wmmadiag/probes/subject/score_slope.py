"""V = one-hot rows: O is P itself. The logarithms of the weights against the scores that they should have give a line
of slope 1; 8 for 1/√64 that was forgotten, 0.69 for exp2 without log2(e), 1.44 for log2(e) too much.
"""

from __future__ import annotations

import math

import numpy as np

from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.parts.scores import as_heads, score_rows
from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe

_BLOCKS = 4
_NAMED = {"log2(e) too much": math.log2(math.e), "exp2 without log2(e)": math.log(2.0)}


def run(subject: Subject) -> Conclusion | None:
    """Up to four blocks of one-hot rows."""
    shape = subject.inputs["v"].shape
    keys, width = shape[-2:]
    p = subject.parameters
    q, k = as_heads(subject.inputs["q"]), as_heads(subject.inputs["k"])
    scores = np.empty((*q.shape[:3], keys))
    for rows in score_rows(q, k, scale=float(p["scale"]), causal=bool(p["causal"]), alignment=str(p["alignment"])):
        scores[(*rows.head, rows.rows)] = rows.scores
    starts = list(range(0, keys, width))
    starts = (
        starts if len(starts) <= _BLOCKS else [starts[i * (len(starts) - 1) // (_BLOCKS - 1)] for i in range(_BLOCKS)]
    )
    seen, true, weights = [], [], []
    right = decided = True
    where = ""
    for start in starts:
        count = min(width, keys - start)
        block = np.zeros((keys, width))
        block[start + np.arange(count), np.arange(count)] = 1.0
        judged = subject.judged({"v": subject.values("v", block)})
        where = where or ("" if judged.right else judged.where())
        right &= judged.right
        decided &= judged.verdict != "undecided"
        seen.append(as_heads(judged.observed)[..., :count])
        weights.append(as_heads(judged.expected)[..., :count])
        true.append(scores[..., start : start + count])
    if right:
        return Conclusion(
            "right" if decided else "undecided",
            "one-hot V: the weights of all keys are right, so is all before P·V",
        )
    slope, spread = _slope(np.concatenate(seen, -1), np.concatenate(true, -1), np.concatenate(weights, -1))
    if slope is None or spread > 0.05 or abs(slope - 1) < 0.03:
        return Conclusion(
            "wrong",
            "one-hot V: weights are wrong, and not because all scores have a wrong factor",
            (),
            (where,),
        )
    name = next((name for name, factor in _NAMED.items() if abs(slope / factor - 1) < 0.01), "")
    return Conclusion(
        "wrong",
        f"one-hot V: the weights are those of scores {slope:.4g} times as large" + (f" ({name})" if name else ""),
        ("value",),
        (where,),
    )


def _slope(seen: Doubles, true: Doubles, weights: Doubles) -> tuple[float | None, float]:
    """Slope of log(weight) over score with each row's own intercept, and the typical distance from the line."""
    usable = (seen > 1e-4) & np.isfinite(seen) & np.isfinite(true) & (weights > 1e-6)
    usable &= usable.sum(axis=-1, keepdims=True) >= 4
    if usable.sum() < 16:
        return None, math.inf
    count = np.maximum(usable.sum(axis=-1, keepdims=True), 1)
    logs, given = np.where(usable, np.log(np.where(usable, seen, 1.0)), 0.0), np.where(usable, true, 0.0)
    logs = np.where(usable, logs - logs.sum(-1, keepdims=True) / count, 0.0)
    given = np.where(usable, given - given.sum(-1, keepdims=True) / count, 0.0)
    variance = float((given * given).sum())
    if variance < 1e-3 * usable.sum():
        return None, math.inf
    slope = float((logs * given).sum()) / variance
    return slope, float(np.median(np.abs(logs - slope * given)[usable]))


PROBE = SubjectProbe("score-slope", "one-hot V: have the scores behind P the right factor?", ("attention",), run)
