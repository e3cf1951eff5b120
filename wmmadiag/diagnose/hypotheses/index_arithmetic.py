"""The index of a tile, warp, lane, row or column is wrong: elements come from a neighbour, or land in its place.

Bad:
    int row = warp % TILES_N, col = warp / TILES_N;      // exchanged

Good:
    int row = warp / TILES_N, col = warp % TILES_N;
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import (
    answer,
    followed,
    of_disagreement,
    of_finding,
    of_misread,
    of_models,
    readers,
    stored_elsewhere,
)
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.edits.carving import FIRST, REACH, START
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.functions.levelled import Levelled
from wmmadiag.diagnose.functions.reading import depends_on
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.source.carving import Overlap
from wmmadiag.diagnose.symptoms.unwritten import of_hole, overwritten_by, unwritten_reads
from wmmadiag.probes.subject.warp_work import shared_tiles
from wmmadiag.subject.check import own_place

_ALSO = (
    "fragment-map",
    "tensor-strides",
    "leading-dimension",
    "loop-extent",
    "ldmatrix-address",
    "swizzle-mismatch",
    "operand-layout",
    "stale-tile",
    "operand-order",
)


# A line whose values depart says where to look, not why.
_ANY = (
    "row-statistic", "reduction", "p-precision", "masked-row", "normalisation", "rescale-missing", "softmax-scale",
    "causal-mask", "tail-masking", "stale-tile", "loop-extent", "exp-base", "accumulator-init",
)  # fmt: skip


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "every element is where it must be"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for pair in evidence.overlaps:
        yield _overlapping(pair)
    for read in unwritten_reads(evidence):
        same = overwritten_by(evidence, read)
        if same is not None:
            sentence = (
                f"every round of the loop at line {same.loop} stores to the same place: the address lacks "
                f"{same.variable}, and only {read.written} of {read.array} were written when line {read.place.line} "
                "reads it"
            )
            yield of_hole("index-arithmetic", read, Roots.UNCOMPUTED, sentence=sentence, also=_ALSO)
    if evidence.misread and not any(one.matrix for one in evidence.misread):
        yield of_misread(evidence, "index-arithmetic", evidence.misread, Roots.OPERAND - 2, also=_ALSO)
    for seen in evidence.disagreements("misplaced", "shifted", "broken-operand"):
        claim = of_disagreement("index-arithmetic", seen, Roots.OPERAND + 2, also=_ALSO, exact=False)
        yield stored_elsewhere(evidence, claim) if seen.kind == "misplaced" else claim
    for seen in evidence.disagreements("value"):
        claim = of_disagreement("index-arithmetic", seen, Roots.MODEL + 5, also=_ANY, exact=False)
        yield replace(claim, verdict="undecided")
    work = evidence.warp_work
    if work is not None and work.contested and work.nobody:
        # As many elements as a second warp stores again are left out: the tiles are miscounted, not too few.
        stores = [*evidence.errors("races", "same-store", "write-write"), *evidence.errors("coverage")]
        yield Claim(
            "index-arithmetic",
            "undecided",
            f"warps work on others' tiles: {shared_tiles(work)}",
            own_place(stores[0].place) if stores else next(iter(evidence.output_lines), None),
            evidence=(shared_tiles(work),),
            rank=Roots.ORDER + 1.5,
            edit_hypotheses=(
                "index-arithmetic",
                "leading-dimension",
                "tensor-strides",
                "guard-condition",
                "loop-extent",
            ),
            exact=False,
        )
    yield from _twice_and_never(evidence)
    yield from of_models(evidence, "index-arithmetic", also=_ALSO)
    yield from _unread(evidence)
    for level in evidence.levelled:
        yield _levelled(evidence, level)


def _unread(evidence: Evidence) -> Iterator[Claim]:
    """A table that is handed over and never looked at."""
    verdict, bound = evidence.run.verdict, evidence.run.bound
    seen = evidence.reading if not evidence.modelled and evidence.wrong_count else None
    if seen is None or verdict is None or bound is None:
        return
    for role in sorted(seen.unread):
        if depends_on(bound, role, verdict.expected):
            yield Claim(
                "index-arithmetic",
                "proven",
                f"nothing reads {role}, on which the output depends",
                evidence.declared(bound.argument_of(role)),
                evidence=("no access of the run touches it, and the reference gives something else without it",),
                rank=Roots.OPERAND,
                edit_hypotheses=("index-arithmetic", *_ALSO, "card-mismatch"),
                exact=False,
            )


def _levelled(evidence: Evidence, level: Levelled) -> Claim:
    """An index that matters not where the input is the same at all of them."""
    place, lines = readers(evidence, level.roles[0])
    roles, verb = " and ".join(level.roles), "does" if len(level.roles) == 1 else "do"
    axis = f"index {level.axis} of {roles}" if level.axes > 1 else f"the index of {roles}"
    return Claim(
        "index-arithmetic",
        "undecided",
        f"{axis} may be computed wrong, or what depends on it",
        place,
        evidence=(f"the kernel is right where {roles} {verb} not vary along axis {level.axis}",),
        rank=Roots.SUSPICION + 1 / (1 + len(evidence.levelled)),
        edit_hypotheses=("index-arithmetic", *_ALSO, "guard-condition"),
        edit_lines=lines,
        exact=False,
        seen=False,
        likeliest_first=bool(lines),
    )


def _twice_and_never(evidence: Evidence) -> Iterator[Claim]:
    """Tiles that two warps or blocks compute alike, where others are computed by none."""
    if not (unwritten_reads(evidence) or any(evidence.errors("coverage", "unwritten"))):
        return
    also = ("too-few-warps", "write-conflict", "loop-extent", "leading-dimension", "launch-coverage")
    for found in evidence.findings("races", "write-same", "blocks-write-same"):
        if found.other is None:
            claim = of_finding("index-arithmetic", found, Roots.ORDER + 1.5, also=also, exact=False)
            yield replace(claim, sentence=f"{claim.sentence}, and others are left out", seen=False)


def _overlapping(pair: Overlap) -> Claim:
    """Two arrays of one buffer: the later one's offset is what both that write and read there go by."""
    return Claim(
        "index-arithmetic",
        "proven",
        f"{pair.second} starts {pair.room:,} bytes behind the start of {pair.first}, which takes {pair.reach:,} bytes: "
        f"the two overlap in {pair.buffer}",
        pair.declared,
        pair.place,
        evidence=(
            f"line {pair.place.line} reads what line {pair.writer.line} has overwritten through the other pointer",
        ),
        rank=Roots.ADDRESS + 1,
        edit_hypotheses=("index-arithmetic", "leading-dimension"),
        values={START: pair.starts[1], FIRST: pair.starts[0], REACH: pair.reach},
        space="shared",
    )


HYPOTHESIS = Hypothesis("index-arithmetic", "an index or offset is computed wrong", _test, suspected=8)
