"""A and B exchanged, the fragment of another step, or a load from the wrong array: the product is of two tensors that
are never multiplied.

Bad:
    wmma::load_matrix_sync(b, sK + n * LD, LD);          // in the second product, which needs V

Good:
    wmma::load_matrix_sync(b, sV + n * LD, LD);
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, followed, of_disagreement, of_models, same_operands
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.provenance import Disagreement

_ALSO = ("tensor-strides", "index-arithmetic", "stale-tile", "element-type")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "every product is of the tensors that it must be of"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    strides = any(one.matrix for one in evidence.misread)  # then each array holds what was meant, of other heads
    for seen in evidence.disagreements("wrong-matrix") if not strides else ():
        others = same_operands(evidence, seen) is False
        rank = Roots.OPERAND - 1 if others else Roots.OPERAND + 1
        yield replace(of_disagreement("operand-order", seen, rank, also=_ALSO, exact=False), seen=others)
    for seen in evidence.disagreements("shifted"):
        if _of_its_own(seen):
            yield of_disagreement("operand-order", seen, Roots.OPERAND, also=_ALSO, exact=False)
    yield from of_models(evidence, "operand-order", also=_ALSO)


def _of_its_own(seen: Disagreement) -> bool:
    """Whether a product is multiplied with one of its own operands: no operation here has that."""
    left, right = seen.operands or ((), ())
    return len(left) + len(right) > 2 and not set(left).isdisjoint(right)


HYPOTHESIS = Hypothesis("operand-order", "a multiplication takes another operand than meant", _test, suspected=10)
