"""V = 1: each row of O is the sum of the weights over the row sum, 1 whatever the scores are.

Right: what divides is the sum of what was added up, at every tile and rescaling alike.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe


def run(subject: Subject) -> Conclusion:
    """V replaced by ones."""
    judged = subject.judged({"v": subject.values("v", np.ones(()))})
    if judged.right:
        return Conclusion(
            judged.verdict,
            "V = 1: O is 1 in every row: the row sum is that of the weights that were added up",
        )
    seen = judged.observed[judged.wrong]
    finite = seen[np.isfinite(seen)]
    middle = f"{np.median(finite):.4g} in the median" if finite.size else "not finite"
    return Conclusion(
        "wrong",
        f"V = 1: O is not 1 but {middle}: the weights that were added up and the row sum do not agree",
        ("value", "statement", "accumulation"),
        (judged.where(),),
    )


PROBE = SubjectProbe("row-sum", "V = 1: is O 1 in every row?", ("attention",), run)
