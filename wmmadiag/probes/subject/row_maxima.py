"""Scores that grow with the key make an online softmax rescale at every tile; falling ones never after the first.

Right for falling and wrong for growing ones: what was added up before is not rescaled when the maximum grows.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe
from wmmadiag.subject.inputs import draw


def run(subject: Subject) -> Conclusion:
    """The distribution "growing_max", as it is and with the keys in reverse order."""
    elements = subject.bound.elements()
    tensors = {role: (subject.inputs[role].shape, elements[role]) for role in ("q", "k")}
    drawn = draw("growing_max", tensors, 12)
    growing = subject.judged(drawn)
    falling = subject.judged({**drawn, "k": np.ascontiguousarray(drawn["k"][..., ::-1, :])})
    if growing.right and falling.right:
        decided = growing.verdict == falling.verdict == "right"
        return Conclusion(
            "right" if decided else "undecided",
            "growing and falling row maxima: both right, so is rescaling",
        )
    if growing.overflows and falling.overflows and subject.base_judged.right:
        return Conclusion(
            "undecided",
            "scores up to 20 overflow here, and the case's own do not: the kernel may not be meant "
            "for them (no maximum is subtracted)",
        )
    if falling.right:
        return Conclusion(
            "wrong",
            "right while the row's maximum falls, wrong while it grows: earlier tiles are not rescaled",
            ("statement",),
            (growing.where(),),
        )
    if growing.right:
        return Conclusion(
            "wrong",
            "right while the row's maximum grows, wrong while it falls: later tiles are not weighed by "
            "the maximum so far",
            ("statement", "value"),
            (falling.where(),),
        )
    return Conclusion("wrong", "wrong for growing and for falling row maxima", (), (growing.where(), falling.where()))


PROBE = SubjectProbe("row-maxima", "growing and falling row maxima: is rescaling right?", ("attention",), run)
