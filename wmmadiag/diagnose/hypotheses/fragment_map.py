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
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, of_disagreement, of_models, stored_elsewhere
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.place import Place

_ELEMENT = re.compile(r"\.\s*x\s*\[|mma\.sync")
_ALSO = ("index-arithmetic",)


def _test(evidence: Evidence) -> Answer:
    if not any(_ELEMENT.search(evidence.text_of(file) or "") for file in evidence.files):
        return NotSo("refuted", "the source does not touch single elements of fragments")
    return answer(_claims(evidence), NotSo("undecided", "nothing shows which map the kernel assumes"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for seen in evidence.disagreements("misplaced", "row-statistic", "broken-operand"):
        claim = of_disagreement("fragment-map", seen, Roots.OPERAND + 1, also=_ALSO, exact=False)
        yield _where_taken_apart(evidence, stored_elsewhere(evidence, claim)) if seen.kind == "misplaced" else claim
    yield from of_models(evidence, "fragment-map", also=_ALSO)


def _where_taken_apart(evidence: Evidence, claim: Claim) -> Claim:
    """A claim about elements in wrong places at the line that stores single elements of a fragment, if one does."""
    place = claim.place
    model = evidence.source_model(place.file) if place is not None and place.file in evidence.files else None
    if place is None or model is None:
        return claim
    for one in model.assignments:
        if _ELEMENT.search(one.value.text) and "[" in one.target.text and not _ELEMENT.search(one.target.text):
            lines = (*claim.edit_lines, place.line)
            return replace(claim, place=Place(place.file, one.line), other=place, edit_lines=lines)
    return claim


HYPOTHESIS = Hypothesis(
    "fragment-map", "elements of a fragment are taken for other rows and columns than they hold", _test, suspected=12
)
