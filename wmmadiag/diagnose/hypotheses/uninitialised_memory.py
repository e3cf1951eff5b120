"""Memory or a variable is read before anything wrote it, and the value arrives in an output, an address or a branch.

Bad:
    float row_max[4];  …  row_max[i] = fmaxf(row_max[i], s);

Good:
    float row_max[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, of_disagreement, of_finding, watched
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.symptoms.unwritten import other_blocks, unwritten_reads

_ALSO = (
    "accumulator-init",
    "partial-fill",
    "stale-tile",
    "tail-masking",
    "loop-extent",
    "guard-condition",
    "index-arithmetic",
    "reduction",
)


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), watched(evidence, "nothing that was never written reaches an output"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    reads = unwritten_reads(evidence)
    for read in reads:
        if read.space != "shared" and not other_blocks(evidence, read):
            yield of_finding("uninitialised-memory", read.finding, Roots.UNCOMPUTED + 2, also=_ALSO, exact=False)
    if not reads:
        for seen in evidence.disagreements("uninitialised"):
            yield of_disagreement("uninitialised-memory", seen, Roots.UNCOMPUTED + 3, also=_ALSO, exact=False)
        for found in evidence.errors("uninitialised"):
            yield of_finding("uninitialised-memory", found, Roots.UNCOMPUTED + 3, also=_ALSO, exact=False)


HYPOTHESIS = Hypothesis("uninitialised-memory", "a value that nothing wrote reaches the output", _test, suspected=11)
