"""Both operands all ones: every element of the product counts its terms; then ones for 16 of them at a time.

Too few: a slice is lost, or only the last survives. Too many: a slice is counted twice, or an earlier result leaks in.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.subject.model import PRODUCTS, Conclusion, Judged, Subject, SubjectProbe

_SLICE = 16
_MOST = 16


def run(subject: Subject) -> Conclusion | None:
    """Ones; if the count is wrong, slice by slice."""
    left, right = {"gemm": ("a", "b"), "qkt": ("q", "k"), "pv": ("p", "v")}[subject.operation]
    axis = -2 if subject.operation == "gemm" and subject.parameters["transpose_a"] else -1
    depth = subject.inputs[left].shape[axis]
    ones = {**subject.neutral, **{role: subject.values(role, np.ones(())) for role in (left, right)}}
    if "c" in subject.inputs:
        ones["c"] = subject.values("c", np.zeros(()))
    judged = subject.judged(ones)
    if judged.right:
        return Conclusion(
            judged.verdict,
            f"ones: every element counts {depth} terms: no slice is lost or counted twice",
        )
    lost, twice, ratios, detail = [], [], [], [judged.where()]
    slices = -(-depth // _SLICE)
    for at in range(min(slices, _MOST)):
        index = np.arange(depth).reshape((-1, 1) if axis == -2 else (1, -1)) // _SLICE == at
        part = subject.judged({**ones, left: subject.values(left, index.astype(np.float64))})
        if part.right:
            continue
        ratio = _typical(part)
        ratios.append(ratio)
        last = min(depth, (at + 1) * _SLICE) - 1
        detail.append(f"terms {at * _SLICE} to {last}: counted {ratio:.3g} times in the wrong elements")
        if ratio == 0:
            lost.append(at)
        elif ratio > 1:
            twice.append(at)
    if len(ratios) == slices and ratios[0] > 0 and np.ptp([_typical(judged), *ratios]) < 1e-3 * ratios[0]:
        return Conclusion("wrong", f"ones: every term counts {ratios[0]:.4g} times", ("value",), tuple(detail[:1]))
    sentence = f"ones: elements do not count their {depth} terms"
    supports: tuple[str, ...] = ("accumulation", "loop-extent")
    if lost and not twice:
        survives = lost == list(range(slices - 1)) and slices > 1
        sentence += f"; {len(lost)} of {slices} slices of {_SLICE} are lost"
        sentence += ": only the last survives" if survives else ""
        supports = ("loop-extent", "launch")
        if survives:
            supports = ("accumulation",)
    elif twice:
        sentence += f"; {len(twice)} of {slices} slices are counted more than once"
        supports = ("loop-extent", "accumulation", "index", "statement")
    return Conclusion("wrong", sentence, supports, tuple(detail[:8]))


def _typical(judged: Judged) -> float:
    """Median of observed over expected where it is wrong; NaN where nothing is finite."""
    with np.errstate(all="ignore"):
        ratios = judged.observed[judged.wrong] / judged.expected[judged.wrong]
    ratios = ratios[np.isfinite(ratios)]
    return float(np.median(ratios)) if ratios.size else float("nan")


PROBE = SubjectProbe("counted-terms", "ones: does every element count all its terms once?", PRODUCTS, run)
