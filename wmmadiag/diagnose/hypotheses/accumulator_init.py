"""fill_fragment is missing, or stands outside the tile loop: garbage, or the sum of an earlier tile, is added to every
later one.

Bad:
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    for (int k = 0; k < K; k += 16) { … wmma::mma_sync(acc, a, b, acc); }

Good:
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < K; k += 16) { … wmma::mma_sync(acc, a, b, acc); }
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, followed, of_disagreement, of_finding, of_models, watched
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.symptoms.unwritten import unwritten_reads

_ALSO = ("accumulator-reset", "loop-extent", "stale-tile")


def _test(evidence: Evidence) -> Answer:
    own = "every accumulator holds its own sum only, from zero on"
    # Sums of what is not known may be added to others without any check seeing it.
    return answer(_claims(evidence), watched(evidence, own) if evidence.modelled else followed(evidence, own))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for read in unwritten_reads(evidence):
        if read.space == "register":
            yield of_finding(
                "accumulator-init", read.finding, Roots.UNCOMPUTED, also=("uninitialised-memory", *_ALSO), exact=False
            )
    for seen in evidence.disagreements("accumulator"):
        # Operands that change place between two steps of one sum look the same.
        yield of_disagreement("accumulator-init", seen, Roots.SUM, also=(*_ALSO, "index-arithmetic"), exact=False)
    for seen in evidence.disagreements("repeated"):
        yield of_disagreement("accumulator-init", seen, Roots.SUM + 2, also=_ALSO, exact=False)
    yield from of_models(evidence, "accumulator-init", also=_ALSO)


HYPOTHESIS = Hypothesis("accumulator-init", "an accumulator is not zeroed before its sum begins", _test, suspected=18)
