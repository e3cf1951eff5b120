"""The factor of the scores (1/sqrt(D), as a rule) is missing, applied twice, or another one. Softmax then is too
sharp or too flat: plausible numbers, all wrong.

Bad:
    float p = expf(s[i] - row_max);                  // s = Q·Kᵀ, never scaled

Good:
    float p = expf(s[i] * scale - row_max);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, modelled, of_disagreement, of_models, only_for
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("exp-base",)


def _test(evidence: Evidence) -> Answer:
    if (other := only_for(evidence, ("attention", "qkt", "softmax"))) is not None:
        return other
    return answer(_claims(evidence), modelled(evidence, "with another factor"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("scale"):
        yield of_disagreement("softmax-scale", seen, Roots.STATISTIC, also=_ALSO, exact=False)
    yield from of_models(evidence, "softmax-scale")


HYPOTHESIS = Hypothesis("softmax-scale", "the scores are not scaled by the factor that they need", _test, suspected=20)
