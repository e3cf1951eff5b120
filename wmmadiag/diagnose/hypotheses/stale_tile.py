"""A buffer is not cleared for the tail, or the wrong one of two buffers is read: columns of the tile before leak in.

Bad:
    if (row < rows_left) sV[r][c] = V[…];                 // the other rows still hold the last tile

Good:
    sV[r][c] = row < rows_left ? V[…] : half(0);
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.checks.finding import Finding
from wmmadiag.diagnose.answers import answer, followed, of_disagreement, of_models
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.symptoms.unwritten import UnwrittenRead, of_hole, unfilled_stage, unwritten_reads
from wmmadiag.place import Place

_ALSO = ("tail-masking", "loop-extent", "async-copy-order", "index-arithmetic", "partial-fill")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "every tile that was read had just been filled"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for read in unwritten_reads(evidence):
        if unfilled_stage(evidence, read):
            yield _of_stage(evidence, read)
    for seen in evidence.disagreements("repeated", "shifted"):
        yield of_disagreement("stale-tile", seen, Roots.OPERAND + 3, also=_ALSO, exact=False)
    yield from of_models(evidence, "stale-tile", also=_ALSO)


def _of_stage(evidence: Evidence, read: UnwrittenRead) -> Claim:
    """A stage that is read and that nothing filled: the wrong one of several is read, or was filled."""
    unfilled = f"line {read.place.line} reads stage {read.stage} of {read.array}, of which nothing is filled"
    claim = of_hole("stale-tile", read, Roots.UNCOMPUTED, sentence=f"{unfilled}: another stage is", also=_ALSO)
    values = {"stage": read.stage}
    twice = next((_call_of(found) for found in evidence.errors("async", "in-flight-write")), None)
    if twice is None or twice.file != read.place.file:
        return replace(claim, place=read.place, other=claim.place, values=values)
    return replace(
        claim,
        sentence=f"line {twice.line} copies into a stage that is in use, while {unfilled}",
        place=twice,
        other=read.place,
        rank=Roots.ORDER - 3,
        values=values,
    )


def _call_of(found: Finding) -> Place:
    """Where the kernel itself asks for what a finding names."""
    return list(found.place.frames())[-1]


HYPOTHESIS = Hypothesis("stale-tile", "contents of an earlier tile are used again", _test)
