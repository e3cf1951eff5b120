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
from wmmadiag.errors import BudgetError

_ALSO = ("index-arithmetic", "accumulator-reset", "tile-overwritten", "guard-condition", "too-few-warps", "causal-mask")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "every sum has each of its terms exactly once"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    error = evidence.run.error
    if isinstance(error, BudgetError) and error.place is not None:
        yield Claim(
            "loop-extent",
            "undecided",
            "the kernel does not come to its end: a loop around this line may never be left",
            evidence.error_place(),
            instead="nothing within the budget of one run",
            evidence=(error.message, *(line.strip() for line in error.detail.splitlines()[:4])),
            rank=Roots.ORDER + 5,
            edit_hypotheses=("loop-extent", *_ALSO),
            exact=False,
        )
    for seen in evidence.disagreements("incomplete", "repeated"):
        yield of_disagreement("loop-extent", seen, Roots.SUM + 1, also=_ALSO, exact=False)
    yield from of_models(evidence, "loop-extent", also=_ALSO)


HYPOTHESIS = Hypothesis("loop-extent", "a loop leaves out a slice or tile, or takes one twice", _test, suspected=10)
