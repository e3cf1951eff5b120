"""The log-sum-exp that some kernels write besides O: the same scores, another use of them.

Wrong with a right O: the scale, the base of the logarithm, or which maximum is added at the end.
"""

from __future__ import annotations

from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe


def run(subject: Subject) -> Conclusion | None:
    """The case's own inputs; only where the log-sum-exp is an output."""
    if "lse" not in subject.base:
        return None
    judged = subject.base_judged
    if "lse" not in judged.others:
        return Conclusion(judged.verdict if judged.right else "right", "the log-sum-exp of every row is right")
    alone = "O is right and the log-sum-exp is not" if judged.right else "the log-sum-exp is wrong, as O is"
    supports = ("value",) if judged.right else ()
    return Conclusion(
        "wrong", f"{alone}: look at how it is put together at the end" if judged.right else alone, supports
    )


PROBE = SubjectProbe("log-sum", "is the log-sum-exp right, too?", ("attention",), run)
