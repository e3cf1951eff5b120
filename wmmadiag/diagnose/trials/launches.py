"""Other launches of the same kernel: more shared memory, more or fewer threads, more blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wmmadiag.diagnose.claim import Claim
from wmmadiag.diagnose.edits.model import Change
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.source.shared_arrays import carved_at, in_dynamic_memory
from wmmadiag.diagnose.symptoms.sharing import shared_axes
from wmmadiag.emulator.limits import SHARED_WITHOUT_OPT_IN, limits
from wmmadiag.subject.card import LaunchShape

_SHARED = frozenset({"shared-memory-limit", "out-of-bounds", "fragment-footprint"})
_THREADS = frozenset({"launch-coverage", "too-few-warps", "unwritten-output", "partial-fill", "shared-memory-limit"})
_ABOUT_LAUNCH = frozenset({"launch-coverage", "too-few-warps", "unwritten-output"})
_AXES = "xyz"


@dataclass(frozen=True, slots=True)
class OtherLaunch:
    """A launch to try.

    Attributes:
        hypothesis: what it would mend.
        summary: what it changes, one clause.
        file, line: of the source, what it is about; "" and 0 where nothing there says it.
        changes: of that file, which go with it.
    """

    hypothesis: str
    summary: str
    shape: LaunchShape
    file: str = ""
    line: int = 0
    changes: tuple[Change, ...] = ()


def speaks_of_launch(claim: Claim) -> bool:
    """Whether what was seen is what a launch that is too small leaves behind: parts that nobody computes or writes.

    A term that is missing from a sum is not: there another launch may make up for a wrong bound of the source.
    """
    return claim.hypothesis in _ABOUT_LAUNCH or ("shared" in claim.sentence and claim.hypothesis in _SHARED)


def other_launches(evidence: Evidence, claim: Claim) -> Iterator[OtherLaunch]:
    """Launches that may mend what a claim says; nothing for claims that no launch could mend.

    Along axes on which the kernel itself shares the work out, any launch is right.
    """
    own = evidence.bench.variant.launch or evidence.bench.card.launch
    named = {claim.hypothesis, *claim.edit_hypotheses}
    result = evidence.run.result
    if named & _SHARED and claim.space == "shared":
        most = limits(evidence.bench.arch).shared_per_block
        if sum(one.size for *_, arrays in evidence.static_arrays for one in arrays) > SHARED_WITHOUT_OPT_IN:
            yield from _dynamic(evidence, claim, own, most)
            return
        file, line = _carved(evidence, claim)
        for size in _sizes(result.shared_bytes, most):
            summary = f"launch with {size:,} bytes of dynamic shared memory in place of {result.shared_bytes:,}"
            yield OtherLaunch("shared-memory-limit", summary, replace(own, shared=size), file, line)
    if not named & _THREADS:
        return
    # More warps mend what no warp computes: that is what is wrong, wherever it is mended.
    warps = "too-few-warps" if claim.hypothesis == "too-few-warps" else "launch-coverage"
    threads = result.block[0] * result.block[1] * result.block[2]
    shared = _shared_axes(evidence)
    for factor in (2, 4, 8) if "threads" not in shared else ():
        if 0 < threads * factor <= 1024:
            block = (f"({own.block[0]}) * {factor}", *own.block[1:])
            summary = f"launch {threads * factor} threads per block in place of {threads}"
            yield OtherLaunch(warps, summary, replace(own, block=block))
    for axis, blocks in enumerate(result.grid[: len(own.grid)]):
        if _AXES[axis] in shared:
            continue
        for text, words in (
            (f"({own.grid[axis]}) + 1", "one block more"),
            (f"({own.grid[axis]}) * 2", "twice the blocks"),
        ):
            grid = (*own.grid[:axis], text, *own.grid[axis + 1 :])
            summary = f"launch {words} along {_AXES[axis]} than {blocks}"
            yield OtherLaunch("launch-coverage", summary, replace(own, grid=grid))


def _dynamic(evidence: Evidence, claim: Claim, own: LaunchShape, most: int) -> Iterator[OtherLaunch]:
    """Static arrays that are too large together, in dynamic memory."""
    if claim.hypothesis != "shared-memory-limit" or len(evidence.static_arrays) != 1:
        return
    file, model, arrays = evidence.static_arrays[0]
    moved = in_dynamic_memory(model, arrays)
    if moved is not None and moved[1] <= most:
        summary = (
            f"put the arrays into dynamic shared memory, {moved[1]:,} bytes for the launch, "
            "and opt in with cudaFuncAttributeMaxDynamicSharedMemorySize"
        )
        line = arrays[0].variable.line
        yield OtherLaunch("shared-memory-limit", summary, replace(own, shared=moved[1]), file, line, moved[0])


def _carved(evidence: Evidence, claim: Claim) -> tuple[str, int]:
    """Where what a claim's line accesses is carved out of dynamic memory; ("", 0) where that cannot be told."""
    place = claim.place
    model = evidence.source_model(place.file) if place is not None and place.file in evidence.files else None
    line = carved_at(model, place.line) if model is not None and place is not None else None
    return (place.file, line) if place is not None and line is not None else ("", 0)


def _shared_axes(evidence: Evidence) -> frozenset[str]:
    models = [evidence.source_model(file) for file in evidence.files]
    return frozenset(axis for model in models if model is not None for axis in shared_axes(model))


def _sizes(now: int, most: int) -> Iterator[int]:
    """Larger sizes, in steps of a few KiB first."""
    size = (now // 1024 + 1) * 1024
    while size <= most:
        yield size
        size += max(1024, size // 8 // 1024 * 1024)
