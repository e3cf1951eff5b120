"""Scores or exponentials go through half before the maximum is subtracted: overflow to infinity, or errors beyond the
bound.

Bad:
    half p = __float2half(expf(s));

Good:
    half p = __float2half(expf(s - row_max));
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, modelled, of_disagreement, of_finding, of_models, only_for
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis


def _test(evidence: Evidence) -> Answer:
    if (other := only_for(evidence, ("attention", "softmax", "pv"))) is not None:
        return other
    return answer(_claims(evidence), modelled(evidence, "with earlier rounding"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for found in evidence.findings("numbers", "overflow", "near-overflow"):
        if evidence.wrong_count:
            claim = of_finding(
                "p-precision", found, Roots.STATISTIC, also=("softmax-scale", "row-statistic"), exact=False
            )
            yield replace(claim, seen=False)  # that it overflows was seen, not that the rounding came too early
    for seen in evidence.disagreements("softmax"):
        yield of_disagreement("p-precision", seen, Roots.STATISTIC + 3, also=("row-statistic",), exact=False)
    yield from of_models(evidence, "p-precision")


HYPOTHESIS = Hypothesis("p-precision", "probabilities or scores are rounded too early", _test)
