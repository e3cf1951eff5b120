"""The division by the row sum is missing, done twice, or by a sum that covers other keys than the output does.

Bad:
    out[i] = acc;

Good:
    out[i] = acc / row_sum;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, modelled, of_disagreement, of_models, only_for
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("reduction", "tail-masking", "rescale-missing", "row-statistic")


def _test(evidence: Evidence) -> Answer:
    if (other := only_for(evidence, ("attention", "softmax"))) is not None:
        return other
    return answer(_claims(evidence), modelled(evidence, "with another row sum"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("normalisation"):
        yield of_disagreement("normalisation", seen, Roots.STATISTIC, also=_ALSO, exact=False)
    yield from of_models(evidence, "normalisation")


HYPOTHESIS = Hypothesis("normalisation", "the output is not divided by the sum of its row", _test, suspected=5)
