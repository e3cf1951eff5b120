"""The families of cases: what is compared, and how it becomes machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

from wmmadiag.api import open_card
from wmmadiag.emulator import load
from wmmadiag.fidelity.cases import Array, Comparable
from wmmadiag.fidelity.lanes import ELEMENTS, approximate, lane_case, lane_groups
from wmmadiag.fidelity.programs import PROGRAMS, program_case
from wmmadiag.fidelity.tensor import TILES, tensor_case, tensor_forms
from wmmadiag.fidelity.warps import warp_cases
from wmmadiag.gpu.assemble import OPTIMISED, Assembly
from wmmadiag.launch import LoadedKernel
from wmmadiag.subject import shipped
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card_session import session_for
from wmmadiag.subject.compiling import SubjectCompiler
from wmmadiag.subject.symbols import rendered_entry

if TYPE_CHECKING:
    from wmmadiag.subject.card import Card

# Whole kernels: each case of the right kernels that come with wmmadiag.


@dataclass(frozen=True, slots=True)
class KernelCase:
    """A case of a card, with inputs of a seed; see `Comparable`. A row is an array that the kernel may write."""

    key: str
    ptx: str
    entry: str
    bound: BoundCase

    @property
    def rows(self) -> Sequence[str]:
        return [self.bound.launch.name(index) for index in self.bound.launch.writable()]

    def run(self, kernel: LoadedKernel) -> dict[str, Array]:
        launch = self.bound.launch.copied()
        kernel.launch(launch)
        written = launch.writable()
        return {launch.name(i): array.reshape(1, -1).view(f"u{array.itemsize}") for i, array in written.items()}


@cache
def kernel_keys() -> Mapping[str, tuple[str, str, str]]:
    """Key → (card below the shipped kernels, variant, case); no card whose reference is a program of its own."""
    found = {}
    for path, _ in shipped.cards():
        if "/wrong/" in path or "/lookalike/" in path:
            continue
        card = _card(path)
        for variant in card.variants:
            for case in card.cases:
                found[f"{path.removesuffix('.toml')}/{variant.name}/{case.name}"] = (path, variant.name, case.name)
    return found


@lru_cache(maxsize=8)
def _card(path: str) -> Card:
    return open_card(shipped.kernels() / path)


def kernel_case(arch: str, key: str, seed: int = 0) -> KernelCase:
    """One of them, compiled for an architecture.

    Args:
        seed: of its inputs; 0: the card's.
    """
    path, variant_name, case_name = kernel_keys()[key]
    card = _card(path)
    case, variant = card.case(case_name), card.variant(variant_name)
    ptx, entry = _compiled(arch, path, variant_name, case_name)
    return KernelCase(key, ptx, entry, bind(card, case, variant, seed=seed or None))


@lru_cache(maxsize=64)
def _compiled(arch: str, path: str, variant_name: str, case_name: str) -> tuple[str, str]:
    card = _card(path)
    case, variant = card.case(case_name), card.variant(variant_name)
    compiler = SubjectCompiler()
    options = session_for(card, arch, load, compiler).compile_options(case, variant)
    compilation = compiler(variant.source or card.source, options)
    return compilation.ptx, compilation.entry(rendered_entry(card, case, variant)).name


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


def _lane(arch: str, key: str, seed: int, size: int) -> Comparable:
    return lane_case(_number(arch), key, seed, size)


FAMILIES = {
    "tensor": Family("tensor cores", lambda arch: list(tensor_forms(arch)), tensor_case, TILES),
    "instructions": Family(
        "arithmetic, conversions, comparisons, all modifiers", partial(_lane_keys, exact=True), _lane, ELEMENTS
    ),
    "approximations": Family("approximate functions", partial(_lane_keys, exact=False), _lane, ELEMENTS),
    "warps": Family(
        "shuffles, votes, matches, reductions, atomics",
        lambda _: list(warp_cases()),
        lambda _, key, seed, __: warp_cases(seed)[key],
    ),
    # Optimisation folds what the ISA leaves open: min(x, x) is x, also for a NaN that min would have made canonical.
    "programs": Family(
        "random programs, not optimised",
        lambda _: [f"program {number}" for number in range(PROGRAMS)],
        lambda _, key, seed, __: program_case(int(key.split()[1]), seed),
        assembly=Assembly(level=0, fuse=False),
    ),
    "kernels": Family(
        "whole kernels", lambda _: list(kernel_keys()), lambda arch, key, seed, _: kernel_case(arch, key, seed)
    ),
}
