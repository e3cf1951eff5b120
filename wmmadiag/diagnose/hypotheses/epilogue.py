"""What follows a product (scales, C, bias, activation) is left out, done twice, or done in another order than the
operation says.

Bad:
    out[i] = fmaxf(acc[i], 0.0f) + bias[col];             // the activation comes after the bias

Good:
    out[i] = fmaxf(acc[i] + bias[col], 0.0f);
"""

from __future__ import annotations

from wmmadiag.diagnose.answers import answer, modelled, of_models, only_for
from wmmadiag.diagnose.claim import Answer
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("softmax-scale", "index-arithmetic")


def _test(evidence: Evidence) -> Answer:
    if (other := only_for(evidence, ("gemm",))) is not None:
        return other
    return answer(of_models(evidence, "epilogue", also=_ALSO), modelled(evidence, "with another epilogue"))


HYPOTHESIS = Hypothesis(
    "epilogue", "scales, bias or activation of the product are not the operation's", _test, suspected=12
)
