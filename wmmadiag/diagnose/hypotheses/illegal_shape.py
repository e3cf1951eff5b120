"""Such a fragment is an incomplete type: the compiler says so. Shapes and types per architecture: `wmmadiag shapes`.
16x16x16 of half is legal on every architecture from sm_70 on.

Bad:
    wmma::fragment<wmma::matrix_a, 16, 8, 16, half, wmma::row_major> a;       // mma.sync has it, wmma not

Good:
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
"""

from __future__ import annotations

import re

from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.errors import CompileError
from wmmadiag.subject.check import own_place

_REFUSED = re.compile(
    r"incomplete type|no instance of (overloaded )?function .*(matrix_sync|mma_sync|fill_fragment)|fragment<"
)
"""What the compiler says of fragments themselves; a misspelt name in a call of theirs is another matter."""


def _test(evidence: Evidence) -> Answer:
    error = evidence.run.error
    if not isinstance(error, CompileError):
        return NotSo("refuted", f"every fragment compiles for {evidence.bench.arch}")
    if not _REFUSED.search(error.message):
        return NotSo("refuted", "the compiler's complaint is about something else")
    place = own_place(error.place) if error.place is not None else None
    return (
        Claim(
            "illegal-shape",
            "proven",
            f"the compiler refuses a fragment operation: {error.message}",
            place,
            None,
            "nothing: it does not compile",
            (f"the compiler: {error.message}",),
            None,
            Roots.COMPILE,
            edit_hypotheses=("illegal-shape", "element-type", "operand-layout", "operand-order"),
            advice="take a shape and type that the architecture has: `wmmadiag shapes` lists them",
            exact=True,
        ),
    )


HYPOTHESIS = Hypothesis(
    "illegal-shape", "a fragment of a shape, type or layout that wmma does not have", _test, suspected=48
)
