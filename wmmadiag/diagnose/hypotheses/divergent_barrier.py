"""__syncthreads() in a branch that some threads do not take, in a loop of which some do fewer rounds, or after an early
return: the block hangs, or goes on unordered.

Bad:
    if (row < S) { sO[row] = acc; __syncthreads(); }

Good:
    if (row < S) sO[row] = acc;
    __syncthreads();
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, of_finding, watched
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.source.meeting import early_exits
from wmmadiag.errors import KernelFault
from wmmadiag.place import Place

_ALSO = ("guard-condition", "loop-extent", "missing-barrier")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), watched(evidence, "every thread reached every barrier"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    error = evidence.run.error
    if isinstance(error, KernelFault) and error.kind == "deadlock":
        yield Claim(
            "divergent-barrier",
            "proven",
            "threads wait at a barrier that others never reach",
            evidence.error_place(),
            None,
            "nothing: the block hangs",
            (error.message, *error.detail.splitlines()),
            None,
            Roots.LAUNCH + 1,
            ("divergent-barrier", *_ALSO),
        )
    if isinstance(error, KernelFault) and error.kind == "partial-warp":
        place, other = _left_before(evidence)
        yield Claim(
            "divergent-barrier",
            "proven",
            f"lanes are missing at an operation of the whole warp: {error.message}",
            place,
            other,
            instead="nothing: the launch dies",
            evidence=(error.message, *error.detail.splitlines()),
            rank=Roots.LAUNCH + 1,
            edit_hypotheses=("divergent-barrier", *_ALSO, "launch-coverage"),
            exact=False,
        )
    for found in evidence.errors("barriers"):
        yield of_finding("divergent-barrier", found, Roots.ORDER - 1, also=_ALSO)


def _left_before(evidence: Evidence) -> tuple[Place | None, Place | None]:
    """The `return` that lanes took before they were missed, and where they were; the latter alone without one."""
    place = evidence.error_place()
    model = evidence.source_model(place.file) if place is not None and place.file in evidence.files else None
    exits = early_exits(model, place.line) if model is not None and place is not None else ()
    return (Place(place.file, exits[0]), place) if place is not None and exits else (place, None)


HYPOTHESIS = Hypothesis("divergent-barrier", "a barrier that not all threads reach", _test, suspected=22)
