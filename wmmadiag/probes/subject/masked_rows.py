"""Rows without any key (a bottom-right causal mask with more queries than keys): 0, or what the card says; never NaN by
accident, and no weight for masked keys.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe


def run(subject: Subject) -> Conclusion | None:
    """The case's own inputs; only where there are such rows."""
    p = subject.parameters
    queries, keys = subject.inputs["q"].shape[-2], subject.inputs["k"].shape[-2]
    if not p["causal"] or p["alignment"] != "bottom-right" or queries <= keys:
        return None
    if p["masked_rows"] == "any":
        return None
    judged = subject.base_judged
    empty = queries - keys
    bad = judged.wrong[..., :empty, :]
    if not bad.any():
        return Conclusion(judged.verdict, f"the {empty} rows without any key are {p['masked_rows']}: right")
    nan = int(np.isnan(judged.observed[..., :empty, :]).sum())
    what = "NaN" if nan else "a number"
    return Conclusion(
        "wrong",
        f"rows without any key hold {what} instead of {p['masked_rows']}",
        ("condition",),
        (judged.where(),),
    )


PROBE = SubjectProbe("masked-rows", "rows without any key: are they what the card says?", ("attention",), run)
