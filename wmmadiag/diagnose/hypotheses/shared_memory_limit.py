"""More than 48 KB need the opt-in by cudaFuncSetAttribute; static arrays can never have more; the most per block is 99
KB on sm_86 and sm_89, 163 KB on sm_80, 227 KB on sm_90.

Bad:
    attn<<<grid, block, 96 * 1024>>>(…);

Good:
    cudaFuncSetAttribute(attn, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 * 1024);
    attn<<<grid, block, 96 * 1024>>>(…);
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, of_fault, of_finding
from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.emulator.limits import SHARED_WITHOUT_OPT_IN
from wmmadiag.errors import CompileError, KernelFault
from wmmadiag.place import Place


def _test(evidence: Evidence) -> Answer:
    used = evidence.run.result.shared_bytes
    return answer(
        _claims(evidence),
        NotSo(
            "refuted", f"the launch asks for {used:,} bytes of dynamic shared memory, which {evidence.bench.arch} has"
        ),
    )


def _claims(evidence: Evidence) -> Iterator[Claim]:
    error = evidence.run.error
    limits = isinstance(error, CompileError) or (isinstance(error, KernelFault) and error.kind == "launch-limits")
    if error is not None and limits and error.space == "shared":
        claim = of_fault(
            "shared-memory-limit", error, evidence, Roots.LAUNCH, instead="nothing: the launch fails", advice=error.hint
        )
        yield _at_arrays(claim, evidence)
    for found in evidence.errors("resources", "missing-opt-in", "small-opt-in"):
        yield of_finding("shared-memory-limit", found, Roots.LAUNCH + 1, advice=found.hint)


def _at_arrays(claim: Claim, evidence: Evidence) -> Claim:
    """A claim about static arrays at the largest one's declaration, which takes most of the memory."""
    if sum(one.size for _, _, arrays in evidence.static_arrays for one in arrays) <= SHARED_WITHOUT_OPT_IN:
        return claim
    file, _, arrays = max(evidence.static_arrays, key=lambda one: one[2][0].size)
    sizes = ", ".join(f"{one.variable.name} {one.size:,}" for one in arrays)
    lines = tuple(dict.fromkeys(one.variable.line for one in arrays))
    return replace(
        claim,
        place=Place(file, lines[0]),
        edit_lines=lines,
        evidence=(*claim.evidence, f"bytes of the arrays: {sizes}"),
    )


HYPOTHESIS = Hypothesis(
    "shared-memory-limit", "the block needs more shared memory than it may have", _test, suspected=9
)
