"""Every difference is explained by another reading of the card: coarser arithmetic that the card does not allow, or
another storage order.

Bad:
    [computes]
    operation = "attention"                                # P is rounded to half in the kernel

Good:
    [computes]
    operation = "attention"
    p_dtype = "f16"
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, of_models
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("normalisation", "softmax-scale", "row-statistic", "rescale-missing", "index-arithmetic", "loop-extent")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), NotSo("refuted", "no other reading of the card makes the output right"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    verdict = evidence.run.verdict
    if verdict is not None and verdict.coarser:
        said = f"every difference would be within the bound with {verdict.coarser}"
        yield Claim(
            "card-mismatch",
            "reproduced",
            said,
            evidence=(said,),
            rank=Roots.SUSPICION,
            edit_hypotheses=("half-accumulation", "p-precision"),
            advice="if the kernel means that, let the card's [computes] say so",
            exact=False,
        )
    yield from of_models(evidence, "card-mismatch", also=_ALSO)


HYPOTHESIS = Hypothesis(
    "card-mismatch", "the kernel computes something else than the card says, and that consistently", _test, suspected=1
)
