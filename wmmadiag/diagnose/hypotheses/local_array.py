"""Fragment loads and stores work on shared or global memory. On an array of the thread the behaviour is undefined: the
compiler may delete them, or the launch dies.

Bad:
    float tile[256];
    wmma::store_matrix_sync(tile, acc, 16, wmma::mem_row_major);

Good:
    __shared__ float tile[WARPS][256];
    wmma::store_matrix_sync(tile[warp], acc, 16, wmma::mem_row_major);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.errors import KernelFault

_FRAGMENT = ("wmma.", "ldmatrix", "stmatrix")
_DELETED = ("deleted-wmma-store", "deleted-wmma-load")


def _test(evidence: Evidence) -> Answer:
    if evidence.run.compilation is None:
        return NotSo("undecided", "the source does not compile")
    return answer(
        _claims(evidence),
        NotSo("refuted", "every fragment load and store is in the compiled code, on shared or global memory"),
    )


def _claims(evidence: Evidence) -> Iterator[Claim]:
    compilation = evidence.run.compilation
    for note in compilation.notes if compilation is not None else ():
        if note.kind in _DELETED:
            yield Claim(
                "local-array",
                "proven",
                note.message,
                note.place,
                None,
                "the values in that array are whatever was there",
                (f"the compiler: {note.message}",),
                None,
                Roots.DELETED,
                advice="let the fragment go through shared memory: one tile per warp",
            )
    error = evidence.run.error
    if isinstance(error, KernelFault) and error.op.startswith(_FRAGMENT) and error.space == "local":
        yield Claim(
            "local-array",
            "proven",
            f"a fragment operation on a thread's own array: {error.message}",
            evidence.error_place(),
            None,
            "",
            (f"the launch ends here: {error.message}",),
            None,
            Roots.DELETED,
            advice="let the fragment go through shared memory: one tile per warp",
        )


HYPOTHESIS = Hypothesis(
    "local-array", "a fragment is stored to, or loaded from, an array of a thread", _test, suspected=10
)
