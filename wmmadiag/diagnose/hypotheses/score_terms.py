"""What is done to scaled scores before the softmax is not what the operation says: a bias, ALiBi or a softcap is left
out, applied twice, has the wrong sign, or comes at another place than after the scale.

Bad:
    s = (s + bias[j]) * scale;                            // the bias is scaled, too

Good:
    s = s * scale + bias[j];
"""

from __future__ import annotations

from wmmadiag.diagnose.answers import answer, modelled, of_models, only_for
from wmmadiag.diagnose.claim import Answer
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("softmax-scale", "index-arithmetic")


def _test(evidence: Evidence) -> Answer:
    if (other := only_for(evidence, ("attention", "qkt"))) is not None:
        return other
    found = of_models(evidence, "score-terms", also=_ALSO)
    return answer(found, modelled(evidence, "with other terms of the scores"))


HYPOTHESIS = Hypothesis("score-terms", "softcap, bias or ALiBi of the scores are not the operation's", _test)
