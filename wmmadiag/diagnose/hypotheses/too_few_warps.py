"""The block has fewer warps than the tile has parts, and nothing loops over the rest: those rows or columns are copied
out as they were. Huge or random numbers, easily taken for a wrong layout.

Bad:
    int tile = threadIdx.x / 32;   …   store(sS + tile * 16 * LD, acc);          // 4 warps, 8 tiles

Good:
    for (int tile = threadIdx.x / 32; tile < TILES; tile += blockDim.x / 32) { …   store(sS + tile * 16 * LD, acc); }
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, of_models, watched
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.source.meeting import given_by_thread
from wmmadiag.diagnose.symptoms.unwritten import of_hole, overwritten_by, unwritten_reads
from wmmadiag.place import Place
from wmmadiag.probes.subject.warp_work import named

_ALSO = (
    "leading-dimension",
    "loop-extent",
    "index-arithmetic",
    "launch-coverage",
    "fragment-footprint",
    "guard-condition",
)


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), watched(evidence, "everything that was read from shared memory had been computed"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for read in unwritten_reads(evidence):
        if overwritten_by(evidence, read) is not None:
            continue
        if read.space == "shared" and read.by in ("fragments", "mixed") and not read.pitch:
            sentence = (
                f"no warp computes part of {read.array}: only {read.written} were written when line "
                f"{read.place.line} reads it"
            )
            yield _at_tile(evidence, of_hole("too-few-warps", read, Roots.UNCOMPUTED, sentence=sentence, also=_ALSO))
    work = evidence.warp_work
    if work is not None and work.innocent and work.guilty and not work.contested:
        words = f"elements that {named(work.guilty)} wrote are wrong, all that {named(work.innocent)} wrote are right"
        yield Claim(
            "too-few-warps",
            "undecided",
            words,
            next(iter(evidence.output_lines), None),
            evidence=(words,),
            rank=Roots.SUSPICION,
            edit_hypotheses=("too-few-warps", "index-arithmetic", "loop-extent", "guard-condition"),
            exact=False,
        )
    yield from of_models(evidence, "too-few-warps", also=_ALSO)


def _at_tile(evidence: Evidence, claim: Claim) -> Claim:
    """A claim at a store, with the line that gives each warp its tile as the second one: there is no loop around it."""
    place = claim.place
    model = evidence.source_model(place.file) if place is not None and place.file in evidence.files else None
    line = given_by_thread(model, place.line) if model is not None and place is not None else 0
    if not line or place is None:
        return claim
    reader = tuple(one.line for one in (claim.other,) if one is not None and one.file == place.file)
    return replace(claim, other=Place(place.file, line), edit_lines=(*claim.edit_lines, *reader))


HYPOTHESIS = Hypothesis("too-few-warps", "part of a tile is computed by no warp", _test, suspected=12)
