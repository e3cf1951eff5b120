"""A fragment is 16 rows of 32 bytes, whatever the array holds: at the edge it takes or overwrites what lies behind.

Bad:
    __shared__ half tile[8][16];
    wmma::load_matrix_sync(a, &tile[0][0], 16);             // needs 16 rows

Good:
    __shared__ half tile[16][16];
    wmma::load_matrix_sync(a, &tile[0][0], 16);
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, of_fault, of_finding, watched
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.symptoms.faulting import OUTSIDE
from wmmadiag.errors import KernelFault

_ALSO = ("leading-dimension", "index-arithmetic", "loop-extent", "out-of-bounds", "element-type", "too-few-warps")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), watched(evidence, "every fragment stayed inside the array that it starts in"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for found in evidence.findings("memory"):
        if found.fragment and (evidence.wrong_count or any(evidence.errors("memory"))):
            yield of_finding("fragment-footprint", found, Roots.ADDRESS + 2, also=_ALSO, exact=False)
    error = evidence.run.error
    if isinstance(error, KernelFault) and error.fragment_line == 0:
        return  # it does not reach outside but starts there: an index, or threads that should have left
    if isinstance(error, KernelFault) and error.op.startswith("wmma") and error.kind in OUTSIDE:
        claim = of_fault(
            "fragment-footprint",
            error,
            evidence,
            Roots.ADDRESS + 1,
            sentence=f"a fragment reaches outside its array: {error.message}",
            also=(*_ALSO, "tail-masking", "guard-condition"),
            exact=False,
        )
        # Where it starts may be as wrong as how far it goes: what it is a part of, the run no longer shows.
        yield replace(claim, seen=False)


HYPOTHESIS = Hypothesis(
    "fragment-footprint", "a fragment reaches outside the array or tile that it starts in", _test, suspected=6
)
