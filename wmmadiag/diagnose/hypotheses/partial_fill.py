"""Each thread fills one element, and there are more elements than threads; or a loop ends too early. What was left out
holds garbage.

Bad:
    sK[threadIdx.x] = K[threadIdx.x];                     // 128 threads, 256 elements

Good:
    for (int i = threadIdx.x; i < 256; i += blockDim.x) sK[i] = K[i];
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, of_models, watched
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.symptoms.unwritten import filled_at_another_time, of_hole, unfilled_stage, unwritten_reads

_ALSO = (
    "loop-extent",
    "tail-masking",
    "guard-condition",
    "index-arithmetic",
    "missing-barrier",
    "uninitialised-memory",
    "leading-dimension",
    "too-few-warps",
)


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), watched(evidence, "every tile was filled before it was read"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    told: set[tuple[str, object]] = set()
    for read in unwritten_reads(evidence):
        if unfilled_stage(evidence, read) or filled_at_another_time(evidence, read):
            continue
        same = (read.array + read.missing, read.place)
        if same in told:  # another lane's, or another instruction's of the line
            continue
        told.add(same)
        if read.space == "shared" and read.by in ("threads", "nothing") and not read.pitch:
            yield of_hole(
                "partial-fill",
                read,
                Roots.UNCOMPUTED + (0.0 if read.by == "threads" else 1.0),
                sentence=f"{read.missing} of {read.array} were not filled when line {read.place.line} reads it",
                also=_ALSO,
            )
    yield from of_models(evidence, "partial-fill", also=_ALSO)


HYPOTHESIS = Hypothesis("partial-fill", "only part of a tile is filled before it is read", _test, suspected=10)
