"""An index runs past the end at a boundary that is no multiple of the tile, or an offset is too large.

Bad:
    sK[r][c] = K[(tile * 64 + r) * D + c];               // the last tile has fewer rows

Good:
    sK[r][c] = tile * 64 + r < S ? K[(tile * 64 + r) * D + c] : half(0);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, of_fault, of_finding, watched
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.symptoms.faulting import OUTSIDE
from wmmadiag.errors import KernelFault

_ALSO = (
    "guard-condition",
    "tail-masking",
    "loop-extent",
    "index-arithmetic",
    "tensor-strides",
    "leading-dimension",
    "partial-fill",
    "fragment-footprint",
)


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), watched(evidence, "every access stayed inside its array"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    error = evidence.run.error
    if isinstance(error, KernelFault) and error.kind in OUTSIDE:
        yield of_fault("out-of-bounds", error, evidence, Roots.ADDRESS + 3, also=_ALSO, exact=False)
    for found in evidence.errors("memory"):
        yield of_finding("out-of-bounds", found, Roots.ADDRESS + 3, also=_ALSO, exact=False)
    for one in evidence.run.result.overwritten:
        what = "an input" if one.kind == "input" else "memory around or between the rows of"
        yield Claim(
            "out-of-bounds",
            "proven",
            f"the kernel overwrites {what} {one.argument}",
            evidence=(f"{one.count:,} elements changed, the first at {one.first:,}",),
            rank=Roots.ADDRESS + 4,
            edit_hypotheses=("out-of-bounds", *_ALSO),
            exact=False,
        )


HYPOTHESIS = Hypothesis("out-of-bounds", "the kernel reads or writes outside an array", _test, suspected=14)
