"""The families of cases: what is compared, and how it becomes machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from wmmadiag.fidelity.cases import Comparable
from wmmadiag.fidelity.kernels import kernel_case, kernel_keys
from wmmadiag.fidelity.lanes import ELEMENTS, approximate, lane_case, lane_groups
from wmmadiag.fidelity.programs import PROGRAMS, program_case
from wmmadiag.fidelity.tensor import TILES, tensor_case, tensor_forms
from wmmadiag.fidelity.warps import warp_cases
from wmmadiag.gpu.assemble import OPTIMISED, Assembly


@dataclass(frozen=True, slots=True)
class Family:
    """Cases of one kind."""

    title: str  # for reports
    keys: Callable[[str], Sequence[str]]  # the cases that an architecture ("sm_90") has
    # a case of (architecture, key, seed, size); seed 0 is that of the committed records
    make: Callable[[str, str, int, int], Comparable]
    size: int = 0  # of a case of the records, in what the family counts; 0: its cases have one size
    assembly: Assembly = OPTIMISED  # how its PTX becomes machine code


def _number(arch: str) -> int:
    return int(arch.removeprefix("sm_").rstrip("af"))


def _lane_keys(arch: str, *, exact: bool) -> list[str]:
    return [key for key in lane_groups(_number(arch)) if approximate(key) is not exact]


def _tensor(arch: str, key: str, seed: int, size: int) -> Comparable:
    return tensor_case(arch, key, seed, size)


def _lane(arch: str, key: str, seed: int, size: int) -> Comparable:
    return lane_case(_number(arch), key, seed, size)


def _warp(_arch: str, key: str, seed: int, _size: int) -> Comparable:
    return warp_cases(seed)[key]


def _program(_arch: str, key: str, seed: int, _size: int) -> Comparable:
    return program_case(int(key.split()[1]), seed)


def _kernel(arch: str, key: str, seed: int, _size: int) -> Comparable:
    return kernel_case(arch, key, seed)


FAMILIES = {
    "tensor": Family("tensor cores", lambda arch: list(tensor_forms(arch)), _tensor, TILES),
    "instructions": Family(
        "arithmetic, conversions, comparisons, all modifiers", partial(_lane_keys, exact=True), _lane, ELEMENTS
    ),
    "approximations": Family("approximate functions", partial(_lane_keys, exact=False), _lane, ELEMENTS),
    "warps": Family("shuffles, votes, matches, reductions, atomics", lambda _: list(warp_cases()), _warp),
    # Optimisation folds what the ISA leaves open: min(x, x) is x, also for a NaN that min would have made canonical.
    "programs": Family(
        "random programs, not optimised",
        lambda _: [f"program {number}" for number in range(PROGRAMS)],
        _program,
        assembly=Assembly(level=0, fuse=False),
    ),
    "kernels": Family("whole kernels", lambda _: list(kernel_keys()), _kernel),
}
