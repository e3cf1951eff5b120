"""Rows or tiles at the end have no block: floor in place of ceil in the number of tiles, or fewer threads than the
kernel counts on.

Bad:
    attn<<<dim3(S / 64, H, B), 128>>>(q, k, v, o, S);

Good:
    attn<<<dim3((S + 63) / 64, H, B), 128>>>(q, k, v, o, S);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.answers import answer, of_fault, of_finding
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.symptoms.faulting import unwritten_share
from wmmadiag.errors import KernelFault


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), NotSo("refuted", "the launch covers the whole output"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    error = evidence.run.error
    if isinstance(error, KernelFault) and error.kind == "launch-limits" and error.space != "shared":
        yield of_fault(
            "launch-coverage", error, evidence, Roots.LAUNCH, instead="nothing: the launch fails", advice=error.hint
        )
    for found in evidence.errors("resources", "too-many-registers"):
        yield of_finding("launch-coverage", found, Roots.LAUNCH, advice=found.hint)
    grid, block = evidence.run.result.grid, evidence.run.result.block
    for name, count, size in unwritten_share(evidence):
        yield Claim(
            "launch-coverage",
            "undecided",
            f"{count:,} of {size:,} elements of {name} are never written: the launch of "
            f"{grid} blocks of {block} threads may be too small",
            rank=Roots.SUSPICION,
            advice="compare grid and block with the tile sizes of the kernel",
        )


HYPOTHESIS = Hypothesis("launch-coverage", "the grid or block of the launch does not cover the output", _test)
