"""fill_fragment stands inside the loop over k: only the last slice survives.

Bad:
    for (int k = 0; k < K; k += 16) { wmma::fill_fragment(acc, 0.0f); … wmma::mma_sync(acc, a, b, acc); }

Good:
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < K; k += 16) { … wmma::mma_sync(acc, a, b, acc); }
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, followed, of_disagreement, of_models
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("accumulator-init", "tile-overwritten", "loop-extent")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "no sum was started again before it was complete"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("lost-sums"):
        if seen.lost == "restarted":
            yield of_disagreement("accumulator-reset", seen, Roots.SUM, also=_ALSO, exact=False)
    yield from of_models(evidence, "accumulator-reset", also=_ALSO)


HYPOTHESIS = Hypothesis(
    "accumulator-reset", "an accumulator is zeroed again before its sum is complete", _test, suspected=10
)
