"""Some elements of the output keep what was there before the launch: an index, a condition or a loop leaves them out.

Bad:
    if (row < S - 1) O[row * D + d] = acc;

Good:
    if (row < S) O[row * D + d] = acc;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, of_finding, of_models
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.symptoms.faulting import unwritten_share

_ALSO = ("guard-condition", "loop-extent", "index-arithmetic", "launch-coverage", "too-few-warps", "tensor-strides")


def _test(evidence: Evidence) -> Answer:
    if not evidence.completed:
        return NotSo("undecided", "the launch did not end")
    return answer(_claims(evidence), NotSo("refuted", "every output element was written"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    shown = list(evidence.errors("coverage", "unwritten"))
    for name, count, size in unwritten_share(evidence) if not shown else ():
        yield Claim(
            "unwritten-output",
            "proven",
            f"{count:,} of {size:,} elements of {name} are never written",
            evidence=(f"{count:,} elements of {name} still hold what was there before the launch",),
            rank=Roots.OPERAND + 5,
            edit_hypotheses=("unwritten-output", *_ALSO),
            exact=False,
        )
    for found in shown:
        yield of_finding("unwritten-output", found, Roots.OPERAND + 5, also=_ALSO, exact=False)
    yield from of_models(evidence, "unwritten-output", also=_ALSO)


HYPOTHESIS = Hypothesis("unwritten-output", "output elements are never written", _test)
