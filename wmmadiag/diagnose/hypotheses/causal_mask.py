"""The mask is off by one, aligned to the wrong corner when query and key lengths differ, inverted, or missing.

Bad:
    if (key >= query) s[i] = -INFINITY;               // hides the diagonal, too

Good:
    if (key > query) s[i] = -INFINITY;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, modelled, of_disagreement, of_models, only_for
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("tail-masking", "guard-condition", "index-arithmetic")


def _test(evidence: Evidence) -> Answer:
    if (other := only_for(evidence, ("attention",))) is not None:
        return other
    return answer(_claims(evidence), modelled(evidence, "with another mask"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("mask"):
        yield of_disagreement("causal-mask", seen, Roots.STATISTIC, also=_ALSO, exact=False)
    yield from of_models(evidence, "causal-mask")


HYPOTHESIS = Hypothesis("causal-mask", "the causal mask hides the wrong keys", _test, suspected=15)
