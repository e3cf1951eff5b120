"""Q = 0: every score is 0, P is uniform, and O is the mean of the rows of V that the mask leaves.

Right: P·V, the row sum, the mask and the tail are right, whatever is wrong with Q·Kᵀ. Wrong by one factor: the sum
counts other keys than those that are added up.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe


def run(subject: Subject) -> Conclusion:
    """Q replaced by zeros."""
    judged = subject.judged({"q": np.zeros_like(subject.inputs["q"])})
    mean = "the mean of the rows of V" + (" up to the mask" if subject.parameters["causal"] else "")
    if judged.right:
        return Conclusion(
            judged.verdict,
            f"Q = 0: O is {mean}: right, so P·V, the row sum and which keys count are right",
        )
    seen, want = judged.observed[judged.wrong], judged.expected[judged.wrong]
    big = np.abs(want) > 0.05 * np.abs(want).max(initial=0)
    supports: tuple[str, ...]
    detail = [judged.where()]
    with np.errstate(all="ignore"):
        ratios = seen[big] / want[big]
    if ratios.size and np.isfinite(ratios).all() and np.ptp(ratios) < 0.02 * np.abs(ratios).max():
        factor = float(np.median(ratios))
        supports = ("value", "condition")
        return Conclusion(
            "wrong",
            f"Q = 0: O is {factor:.4g} times {mean}: the row sum counts other keys than P·V adds up",
            supports,
            detail=tuple(detail),
        )
    supports = ("stride", "accumulation", "loop-extent", "leading-dimension", "layout")
    if subject.parameters["causal"]:
        supports = ("condition", *supports)
    if not np.isfinite(seen).all():
        detail.append(f"{int((~np.isfinite(seen)).sum())} of the wrong elements are not finite")
        supports = ("statement", "condition")
    return Conclusion(
        "wrong",
        f"Q = 0: O is not {mean}, so P·V, the row sum or the mask is wrong, not only Q·Kᵀ",
        supports,
        detail=tuple(detail),
    )


PROBE = SubjectProbe("uniform-weights", "Q = 0: is O the mean of V?", ("attention",), run)
