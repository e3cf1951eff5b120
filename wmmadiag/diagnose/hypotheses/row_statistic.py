"""Statistics are kept per row, but combined with elements of another: an index into the array of maxima or sums is
wrong, or a fragment's rows are guessed.

Bad:
    s[row][c] - m[c]

Good:
    s[row][c] - m[row]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, followed, of_disagreement, of_models
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("index-arithmetic", "reduction", "fragment-map", "missing-barrier")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "maxima, sums and factors met their own rows only"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("row-statistic", "softmax"):
        claim = of_disagreement("row-statistic", seen, Roots.STATISTIC, also=_ALSO, exact=False)
        yield replace(claim, seen=seen.kind == "row-statistic")
    yield from of_models(evidence, "row-statistic", also=_ALSO)


HYPOTHESIS = Hypothesis("row-statistic", "a maximum, sum or factor of another row is used", _test)
