"""exp2 of scores that were not multiplied by log2(e), or exp of scores that were: a softmax at another temperature.

Bad:
    p = exp2f(s[i] - row_max);

Good:
    p = exp2f((s[i] - row_max) * 1.44269504f);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, modelled, of_disagreement, of_models, only_for
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("softmax-scale", "p-precision")


def _test(evidence: Evidence) -> Answer:
    if (other := only_for(evidence, ("attention", "softmax"))) is not None:
        return other
    return answer(_claims(evidence), modelled(evidence, "with the other base"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("scale", "softmax"):
        yield of_disagreement("exp-base", seen, Roots.STATISTIC + 1, also=_ALSO, exact=False)
    yield from of_models(evidence, "exp-base")


HYPOTHESIS = Hypothesis("exp-base", "exponentials of the wrong base", _test)
