"""A shuffle or loop that forms a row maximum or sum leaves lanes out, mixes rows, or uses the wrong operator.

Bad:
    for (int o = 8; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));        // 32 lanes hold the row

Good:
    for (int o = 16; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, modelled, of_disagreement, of_models
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("normalisation", "row-statistic", "loop-extent", "rescale-missing")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), modelled(evidence, "with partial reductions"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("softmax", "normalisation"):
        yield of_disagreement("reduction", seen, Roots.STATISTIC + 2, also=_ALSO, exact=False)
    yield from of_models(evidence, "reduction", also=_ALSO)


HYPOTHESIS = Hypothesis("reduction", "a reduction covers the wrong lanes or elements", _test)
