"""V says which batch and head it belongs to: O must hold the number of its own key-value head, whatever P is.

It shows wrong strides between heads and batches, and wrong grouping of query heads.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.ops.parts.scores import as_heads
from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe


def run(subject: Subject) -> Conclusion | None:
    """V constant within each head: 1 + batch · heads + head."""
    shape = subject.inputs["v"].shape
    four = as_heads(subject.inputs["v"]).shape
    heads = four[0] * four[1]
    if heads < 2:
        return None
    codes = np.broadcast_to(1.0 + np.arange(heads).reshape(four[0], four[1], 1, 1), four).reshape(shape)
    judged = subject.judged({"v": subject.values("v", codes)})
    if judged.right:
        return Conclusion(judged.verdict, f"head-coded V: O of every head comes from its own of the {heads} heads of V")
    observed, expected = as_heads(judged.observed), as_heads(judged.expected)
    detail = [judged.where()]
    whole = 0
    for batch, head in np.argwhere(as_heads(judged.wrong).any(axis=(2, 3)))[:64]:
        seen = np.unique(np.round(observed[batch, head][as_heads(judged.wrong)[batch, head]], 2))
        if np.isfinite(seen).all() and (seen == np.rint(seen)).all() and (seen >= 1).all() and (seen <= heads).all():
            whole += 1
            if len(detail) < 6:
                own = int(np.rint(expected[batch, head].max()))
                detail.append(f"head [{batch},{head}]: V of number {', '.join(f'{s:.0f}' for s in seen[:4])} for {own}")
    if whole:
        return Conclusion(
            "wrong", "head-coded V: some heads of O come from another head of V", ("stride",), tuple(detail)
        )
    return Conclusion(
        "wrong",
        "head-coded V: O is not its head's number, and no other head's",
        ("stride", "leading-dimension"),
        tuple(detail),
    )


PROBE = SubjectProbe("head-codes", "head-coded V: does every head read its own V?", ("attention",), run)
