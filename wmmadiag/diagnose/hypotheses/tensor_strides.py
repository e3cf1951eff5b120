"""The offset of a head or batch, or the stride of a row, belongs to another layout (BSHD for BHSD), or a key head is
computed wrong for grouped heads: right for one head and batch, wrong for more.

Bad:
    const half* k = K + (b * H + h) * S * D;            // K is stored (B, S, H, D)

Good:
    const half* k = K + (b * S * H + h) * D;            // rows lie H * D apart
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, followed, of_disagreement, of_misread, of_models, same_operands
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("index-arithmetic", "operand-order")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "every product is of the heads and batches that it must be of"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    wrong = tuple(one for one in evidence.misread if one.matrix)
    if wrong:
        yield of_misread(evidence, "tensor-strides", wrong, Roots.OPERAND - 3, also=_ALSO)
    # Products of the wrong matrices are what comes of it.
    for seen in evidence.disagreements("wrong-matrix") if not wrong else ():
        claim = of_disagreement("tensor-strides", seen, Roots.OPERAND, also=_ALSO, exact=False)
        yield replace(claim, seen=same_operands(evidence, seen) is True)
    verdict = evidence.run.verdict
    if verdict is not None and verdict.convention is not None and verdict.convention.stored:
        meaning = verdict.convention.meaning()
        yield Claim(
            "tensor-strides",
            "reproduced",
            f"the kernel is right if {meaning}: its strides, or the card, say something else",
            evidence=(f"with {meaning} the output is within the bound",),
            rank=Roots.MODEL - 1,
            edit_hypotheses=("tensor-strides", "operand-layout", "index-arithmetic"),
            advice=f"if the kernel means that, let the card say {verdict.convention.settings()}",
            exact=False,
        )
    yield from of_models(evidence, "tensor-strides", also=_ALSO)


HYPOTHESIS = Hypothesis(
    "tensor-strides", "a tensor is read or written with strides or offsets of another layout", _test, suspected=15
)
