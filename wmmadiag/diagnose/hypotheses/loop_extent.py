"""A bound, start or step is wrong: the tail of k is dropped, a tile is skipped, or a slice is added twice.

Bad:
    for (int k = 0; k < K / 16 - 1; ++k) …

Good:
    for (int k = 0; k < (K + 15) / 16; ++k) …
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, followed, of_disagreement, of_models
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("index-arithmetic", "accumulator-reset", "tile-overwritten", "guard-condition", "too-few-warps", "causal-mask")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "every sum has each of its terms exactly once"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("incomplete", "repeated"):
        yield of_disagreement("loop-extent", seen, Roots.SUM + 1, also=_ALSO, exact=False)
    yield from of_models(evidence, "loop-extent", also=_ALSO)


HYPOTHESIS = Hypothesis("loop-extent", "a loop leaves out a slice or tile, or takes one twice", _test, suspected=10)
