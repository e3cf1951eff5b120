"""The product of a tile is stored over the running result instead of being added to it: only the last tile survives.

Bad:
    wmma::fill_fragment(acc, 0.0f);  …  wmma::store_matrix_sync(sO, acc, D, wmma::mem_row_major);   // for each tile

Good:
    wmma::load_matrix_sync(acc, sO, D, wmma::mem_row_major);  …
    wmma::store_matrix_sync(sO, acc, D, wmma::mem_row_major);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, followed, of_disagreement, of_models
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ALSO = ("accumulator-reset", "accumulator-init", "loop-extent")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "no partial sum was overwritten"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("lost-sums"):
        if seen.lost == "overwritten":
            yield of_disagreement("tile-overwritten", seen, Roots.SUM, also=_ALSO, exact=False)
    yield from of_models(evidence, "tile-overwritten", also=_ALSO)


HYPOTHESIS = Hypothesis("tile-overwritten", "each tile overwrites what earlier tiles added up", _test, suspected=16)
