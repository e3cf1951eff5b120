"""The left operand all zeros: nothing is added up, so the output is 0 (and beta · C): what is there besides was there
before.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.subject.model import PRODUCTS, Conclusion, Subject, SubjectProbe

_LEFT = {"gemm": "a", "qkt": "q", "pv": "p"}


def run(subject: Subject) -> Conclusion:
    """The left operand replaced by zeros."""
    role = _LEFT[subject.operation]
    judged = subject.judged({role: np.zeros_like(subject.inputs[role]), **subject.neutral})
    if judged.right:
        return Conclusion(
            judged.verdict,
            f"{role.upper()} = 0: the output is as it must be, nothing older leaks in",
        )
    seen = judged.observed[judged.wrong]
    nan = int((~np.isfinite(seen)).sum())
    what = f"{nan} of them not finite" if nan else f"up to {np.abs(seen).max():.4g}"
    return Conclusion(
        "wrong",
        f"{role.upper()} = 0: {int(judged.wrong.sum())} of {judged.wrong.size} elements are not 0 ({what}): "
        "something that was never added up is in the output",
        ("accumulation", "statement", "condition"),
        (judged.where(),),
    )


PROBE = SubjectProbe("zero-operand", "a zero operand: does anything older leak into the output?", PRODUCTS, run)
