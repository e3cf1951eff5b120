"""The families of recorded cases: `<family>_sm_XX.npz` holds what a GPU answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cases import Case
from lane_cases import approximate, lane_cases
from programs import program_cases
from warp_cases import warp_cases

from wmmadiag.gpu.assemble import OPTIMISED, Assembly

PROGRAM_SEEDS = 400


@dataclass(frozen=True)
class Family:
    """Cases for a target, what they are, and how they become machine code."""

    cases: Callable[[int], list[Case]]
    title: str
    assembly: Assembly = OPTIMISED


def _lane_ops(sm: int) -> list[Case]:
    return [case for case in lane_cases(sm) if not approximate(case.key)]


def _approximations(sm: int) -> list[Case]:
    return [replace(case, sample=0) for case in lane_cases(sm) if approximate(case.key)]


FAMILIES = {
    "instructions": Family(_lane_ops, "arithmetic, conversions, comparisons, all modifiers"),
    "approximations": Family(_approximations, "approximate functions"),
    "warps": Family(lambda _: warp_cases(), "shuffles, votes, matches, reductions, atomics"),
    # Optimisation folds what the ISA leaves open: min(x, x) is x, also for a NaN that min would have made canonical.
    "programs": Family(
        lambda _: program_cases(0, PROGRAM_SEEDS), "random programs, not optimised", Assembly(level=0, fuse=False)
    ),
}
