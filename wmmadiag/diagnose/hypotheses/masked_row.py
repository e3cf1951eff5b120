"""Where every key of a row or tile is masked the maximum is -infinity, and exp(-inf - -inf) is NaN; with a finite mask
value each key weighs 1.

Bad:
    p = expf(s - row_max);                                // row_max may be -INFINITY

Good:
    p = row_max == -INFINITY ? 0.0f : expf(s - row_max);
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, modelled, of_models, only_for
from wmmadiag.diagnose.claim import Answer, Claim
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.subject.check import own_place


def _test(evidence: Evidence) -> Answer:
    if (other := only_for(evidence, ("attention", "softmax"))) is not None:
        return other
    return answer(_claims(evidence), modelled(evidence, "with NaN in rows without keys"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    # A NaN has many makers; which rows it spoils says whether it is this one, and then where it is made is the line.
    made = next(evidence.findings("numbers", "nan", "infinity"), None)
    for claim in of_models(evidence, "masked-row", also=("causal-mask", "tail-masking")):
        if made is None:
            yield claim
        else:
            shown = (*claim.evidence, f"check numbers: {made.message}")
            yield replace(claim, place=own_place(made.place), evidence=shown)


HYPOTHESIS = Hypothesis("masked-row", "rows without any key give NaN or a weight", _test)
