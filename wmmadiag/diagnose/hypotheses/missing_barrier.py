"""One warp reads what another has not written yet, or overwrites what another still reads. __syncwarp() orders the
lanes of one warp only.

Bad:
    sK[threadIdx.x] = K[threadIdx.x];
    wmma::load_matrix_sync(b, sK, 64);

Good:
    sK[threadIdx.x] = K[threadIdx.x];
    __syncthreads();
    wmma::load_matrix_sync(b, sK, 64);
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.checks.finding import Finding
from wmmadiag.diagnose.answers import answer, of_finding, watched
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.source.meeting import meeting_lines
from wmmadiag.diagnose.symptoms.unwritten import other_blocks, unwritten_reads
from wmmadiag.subject.check import own_place

_PLACES = 8
"""Lines at which a barrier is tried before all others."""
_APART = (
    "end the kernel between the two and launch the second part by itself, or launch it cooperatively with a grid.sync()"
)
_ALSO = ("write-conflict", "async-copy-order", "divergent-barrier", "index-arithmetic")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), watched(evidence, "barriers order every two accesses of which one writes"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for found in evidence.findings("races"):
        # What lanes do in one instruction no barrier orders.
        together = found.kind in ("same-store", "one-instruction")
        if found.kind.startswith("blocks") or together or not _counts(evidence, found):
            continue
        skipped = _in_loops_between(evidence, found)
        claim = of_finding(
            "missing-barrier",
            found,
            Roots.ORDER,
            also=(*(("loop-extent",) if skipped else ()), *_ALSO),
            lines=tuple(dict.fromkeys((*_meeting(evidence, found), *_between(found)))),
            exact=False,
        )
        claim = replace(claim, likeliest_first=not skipped)
        if found.kind.startswith("lanes") and evidence.wrong_count:
            # Lanes run together here, so that what they may do apart is not why these numbers are wrong.
            claim = replace(claim, seen=False)
        # Where no barrier at any line would come between the two, what is wrong is rather that they meet.
        # Where barriers do stand between them, in a loop that did not run, that may be what is wrong.
        apart = found.suggested is not None and not skipped
        yield claim if apart else replace(claim, verdict="undecided", rank=Roots.ORDER + 2)
    yield from _between_blocks(evidence)


def _between_blocks(evidence: Evidence) -> Iterator[Claim]:
    """A block reads what another has yet to write: the blocks of a launch meet at a barrier of the whole grid only."""
    for read in unwritten_reads(evidence):
        for found in other_blocks(evidence, read)[:1]:
            wrote = own_place(found.other) if found.other is not None else None
            where = f"line {wrote.line} in another block" if wrote is not None else "another block"
            claim = of_finding(
                "missing-barrier",
                found,
                Roots.ORDER,
                sentence=f"line {read.place.line} reads {read.array} before {where} has written it: nothing but a "
                "barrier of the whole grid, or a launch of its own, comes between them",
                also=_ALSO,
                lines=_between(found),
                exact=False,
                advice=_APART,
            )
            # That it is read too early is certain; an index that leads into another block's part looks the same.
            yield replace(claim, evidence=(*claim.evidence, f"check uninitialised: {read.finding.message}"), seen=False)


def _counts(evidence: Evidence, found: Finding) -> bool:
    """Errors count; lanes of one warp only where the numbers are wrong, or nothing is, and no error is nearer."""
    if found.level.value == "error":
        return True
    suspect = evidence.wrong_count > 0 or evidence.run.passed
    return found.kind.startswith("lanes") and suspect and not any(evidence.errors("races"))


def _meeting(evidence: Evidence, found: Finding) -> tuple[int, ...]:
    """Where a barrier would order most of the unordered accesses, in the file of these two."""
    here = own_place(found.place)
    model = evidence.source_model(here.file) if here.file in evidence.files else None
    if model is None:
        return ()
    # Accesses that show again and again, in an unrolled loop, count once.
    pairs = {(str(one.place), str(one.other)): (one.place, one.other) for one in evidence.errors("races") if one.other}
    return meeting_lines(model, list(pairs.values()))[:_PLACES]


def _in_loops_between(evidence: Evidence, found: Finding) -> bool:
    """Whether all barriers between two accesses stand in loops that hold neither: loops that were skipped."""
    here, there = own_place(found.place), own_place(found.other) if found.other is not None else None
    model = evidence.source_model(here.file) if here.file in evidence.files else None
    if model is None or there is None or there.file != here.file:
        return False
    low, high = sorted((here.line, there.line))
    between = [one for one in model.barriers if one.kind == "block" and low < model.line_of(one.start) < high]
    loops = [
        [model.statements[at] for at in model.enclosing(one.statement) if model.statements[at].loop] for one in between
    ]
    return bool(between) and all(any(low < loop.line and loop.last_line < high for loop in around) for around in loops)


def _between(found: Finding) -> list[int]:
    """Lines between the two accesses, where a barrier could stand."""
    suggested = [found.suggested.line] if found.suggested is not None else []
    here, there = own_place(found.place), own_place(found.other) if found.other is not None else None
    if there is None or there.file != here.file:
        return suggested
    low, high = sorted((here.line, there.line))
    return [*suggested, *range(low, min(high, low + 200) + 1)]


HYPOTHESIS = Hypothesis("missing-barrier", "accesses that need a barrier between them have none", _test, suspected=30)
