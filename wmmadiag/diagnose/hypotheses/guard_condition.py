"""Early return with && where || is meant, <= for <, or a bound of the other axis: threads past the edge go on, or the
last row is left out.

Bad:
    if (row >= M && col >= N) return;

Good:
    if (row >= M || col >= N) return;
"""

from __future__ import annotations

from wmmadiag.diagnose.answers import answer, modelled, of_models
from wmmadiag.diagnose.claim import Answer
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("tail-masking", "loop-extent")


def _test(evidence: Evidence) -> Answer:
    return answer(of_models(evidence, "guard-condition", also=_ALSO), modelled(evidence, "with another boundary"))


HYPOTHESIS = Hypothesis("guard-condition", "a boundary condition compares or joins wrongly", _test)
