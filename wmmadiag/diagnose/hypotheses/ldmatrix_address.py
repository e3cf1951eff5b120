"""Lane l of ldmatrix.x4 passes the address of row l % 8 of matrix l / 8. Other addresses read other rows, or nothing
that is there.

Bad:
    uint32_t addr = smem(&tile[lane / 16][(lane % 16) * 8]);

Good:
    uint32_t addr = smem(&tile[lane % 16][(lane / 16) * 8]);
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, of_disagreement, of_fault
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.errors import KernelFault

_USED = re.compile(r"ldmatrix")
_ALSO = ("index-arithmetic", "swizzle-mismatch", "operand-layout", "leading-dimension")


def _test(evidence: Evidence) -> Answer:
    if not any(_USED.search(evidence.text_of(file) or "") for file in evidence.files):
        return NotSo("not applicable", "the kernel does not use ldmatrix")
    return answer(_claims(evidence), NotSo("undecided", "no ldmatrix was seen to read wrong rows"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    error = evidence.run.error
    if isinstance(error, KernelFault) and error.op.startswith("ldmatrix"):
        yield of_fault(
            "ldmatrix-address",
            error,
            evidence,
            Roots.ADDRESS,
            sentence=f"ldmatrix at a bad address: {error.message}",
            also=_ALSO,
            exact=False,
        )
    for seen in evidence.disagreements("broken-operand", "shifted", "transposed", "misplaced"):
        if not evidence.runs_at(seen.place, "ldmatrix"):
            continue
        yield of_disagreement("ldmatrix-address", seen, Roots.OPERAND + 1, also=_ALSO, exact=False)


HYPOTHESIS = Hypothesis("ldmatrix-address", "ldmatrix gets wrong row addresses", _test)
