"""Which element `frag.x[i]` holds is not specified; row = i / 16, column = i % 16 is wrong on every chip. Store the
fragment with store_matrix_sync and work on memory, or use the map of the architecture.

Bad:
    for (int i = 0; i < acc.num_elements; ++i) out[(i / 16) * N + i % 16] = acc.x[i];

Good:
    wmma::store_matrix_sync(out, acc, N, wmma::mem_row_major);
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, of_disagreement, of_models, stored_elsewhere
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis

_ELEMENT = re.compile(r"\.\s*x\s*\[|mma\.sync")
_ALSO = ("index-arithmetic",)


def _test(evidence: Evidence) -> Answer:
    if not any(_ELEMENT.search(evidence.text_of(file) or "") for file in evidence.files):
        return NotSo("refuted", "the source does not touch single elements of fragments")
    return answer(_claims(evidence), NotSo("undecided", "nothing shows which map the kernel assumes"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("misplaced", "row-statistic", "broken-operand"):
        claim = of_disagreement("fragment-map", seen, Roots.OPERAND + 1, also=_ALSO, exact=False)
        yield stored_elsewhere(evidence, claim) if seen.kind == "misplaced" else claim
    yield from of_models(evidence, "fragment-map", also=_ALSO)


HYPOTHESIS = Hypothesis(
    "fragment-map", "elements of a fragment are taken for other rows and columns than they hold", _test, suspected=12
)
