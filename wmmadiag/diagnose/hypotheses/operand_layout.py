"""row_major and col_major say how a tile lies in memory. Kᵀ staged as [d][n] is row_major; K as [n][d] is read as Kᵀ by
col_major. Exactly one of the two; both, or neither, gives Q·K: the right shape, wrong numbers, and right ones where K
is symmetric.

Bad:
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::load_matrix_sync(b, sK + n * LDK + d, LDK);          // sK is [n][d]: this multiplies by K

Good:
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::load_matrix_sync(b, sK + n * LDK + d, LDK);          // this multiplies by the transpose of K
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, followed, of_disagreement, of_models
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("index-arithmetic", "tensor-strides", "leading-dimension")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "every multiplication contracts the axes that it must"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("transposed", "wrong-axis"):
        yield of_disagreement("operand-layout", seen, Roots.OPERAND, also=_ALSO)
    yield from of_models(evidence, "operand-layout", also=_ALSO)


HYPOTHESIS = Hypothesis(
    "operand-layout", "an operand is read transposed, or multiplied over the wrong axis", _test, suspected=50
)
