"""Whole kernels: each case of the right kernels that come with wmmadiag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from wmmadiag.fidelity.cases import Array
from wmmadiag.launch import LoadedKernel
from wmmadiag.subject import shipped

if TYPE_CHECKING:
    from wmmadiag.subject.binding import BoundCase
    from wmmadiag.subject.card import Card


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
    from wmmadiag.api import open_card

    return open_card(shipped.kernels() / path)


def kernel_case(arch: str, key: str, seed: int = 0) -> KernelCase:
    """One of them, compiled for an architecture.

    Args:
        seed: of its inputs; 0: the card's.
    """
    from wmmadiag.subject.binding import bind

    path, variant_name, case_name = kernel_keys()[key]
    card = _card(path)
    case, variant = card.case(case_name), card.variant(variant_name)
    ptx, entry = _compiled(arch, path, variant_name, case_name)
    return KernelCase(key, ptx, entry, bind(card, case, variant, seed=seed or None))


@lru_cache(maxsize=64)
def _compiled(arch: str, path: str, variant_name: str, case_name: str) -> tuple[str, str]:
    from wmmadiag.emulator import load
    from wmmadiag.subject.card_session import session_for
    from wmmadiag.subject.compiling import SubjectCompiler
    from wmmadiag.subject.symbols import rendered_entry

    card = _card(path)
    case, variant = card.case(case_name), card.variant(variant_name)
    compiler = SubjectCompiler("auto", use_cache=True, resources=False)
    options = session_for(card, arch, load, compiler).compile_options(case, variant)
    compilation = compiler(variant.source or card.source, options)
    return compilation.ptx, compilation.entry(rendered_entry(card, case, variant)).name
