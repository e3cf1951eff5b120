"""Online softmax keeps sums relative to the maximum seen so far. When a tile raises it, the running
output and the running sum must be multiplied by exp(old - new) first; without that only rows whose maximum lies in
the first tile are right.

Bad:
    o[d] += p * v[d];                                 // o still is relative to the old maximum

Good:
    o[d] = o[d] * expf(old_max - new_max) + p * v[d];
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, modelled, of_disagreement, of_models, only_for
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("normalisation", "row-statistic", "reduction")


def _test(evidence: Evidence) -> Answer:
    if (other := only_for(evidence, ("attention",))) is not None:
        return other
    return answer(_claims(evidence), modelled(evidence, "without the rescaling"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("rescale"):
        yield of_disagreement("rescale-missing", seen, Roots.STATISTIC, also=_ALSO, exact=False)
    yield from of_models(evidence, "rescale-missing")


HYPOTHESIS = Hypothesis(
    "rescale-missing", "what earlier tiles added up is not rescaled when the row maximum grows", _test, suspected=10
)
