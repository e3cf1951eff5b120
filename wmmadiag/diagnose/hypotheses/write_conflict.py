"""Without an order between them the last one wins, differently from run to run; plain stores beside atomicAdd lose
sums.

Bad:
    C[i] += partial;                                     // by two blocks

Good:
    atomicAdd(&C[i], partial);
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, of_finding, watched
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.probes.subject.warp_work import shared_tiles

_ALSO = ("index-arithmetic", "tensor-strides", "missing-barrier", "loop-extent", "guard-condition", "too-few-warps")


def _test(evidence: Evidence) -> Answer:
    return answer(
        _claims(evidence), watched(evidence, "no two warps or blocks write the same element without an order")
    )


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for found in evidence.errors("races"):
        between = found.kind.startswith("blocks")
        if between or found.kind in ("write-write", "same-store", "atomic-write", "one-instruction"):
            # Blocks that meet in the output mostly do so because an index is wrong.
            rank = Roots.OPERAND + 4 if between else Roots.ORDER + 1
            claim = of_finding("write-conflict", found, rank, also=_ALSO, exact=False)
            # Blocks that meet, or elements left out where others are stored twice: an order is missing, or addresses
            # are wrong, and this does not show which.
            seen = not (between or any(evidence.errors("coverage", "unwritten")))
            yield replace(claim, evidence=(*claim.evidence, *_tiles(evidence)), seen=seen)
    for found in evidence.errors("coverage", "lost-result"):
        yield of_finding("write-conflict", found, Roots.OPERAND + 5, also=_ALSO, exact=False)


def _tiles(evidence: Evidence) -> tuple[str, ...]:
    """Which warps meet in the output."""
    words = shared_tiles(evidence.warp_work) if evidence.warp_work is not None else ""
    return (words,) if words else ()


HYPOTHESIS = Hypothesis("write-conflict", "two warps or blocks write the same output", _test, suspected=10)
