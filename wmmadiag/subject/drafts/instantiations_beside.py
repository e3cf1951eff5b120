"""Further instantiations of a kernel: in which order they are judged beside the one taken, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wmmadiag.hostcode.program import plain_name
from wmmadiag.hostcode.types import split_template

if TYPE_CHECKING:
    from wmmadiag.results.model import KernelReport
    from wmmadiag.subject.drafts.kernel import SourceKernel


def most_telling_first(taken: str, others: Sequence[str]) -> tuple[str, ...]:
    """The other instantiations: each has as many arguments as can be that no earlier one has."""
    seen, left, found = _arguments(taken), list(others), list[str]()
    while left:
        best = max(left, key=lambda one: len(_arguments(one) - seen))
        left.remove(best)
        found.append(best)
        seen |= _arguments(best)
    return tuple(found)


def not_judged(others: Sequence[str]) -> tuple[str, ...]:
    """The assumption that a verdict on one instantiation rests on, where there are others."""
    return (f"not judged: {', '.join(others)}, which the source instantiates, too",) if others else ()


def launched_otherwise(kernel: SourceKernel) -> bool:
    """Whether host code launches another instantiation of a kernel, too."""
    launches = (one.kernel for run in (kernel.host.runs if kernel.host is not None else ()) for one in run.launches)
    return len({one.arguments for one in launches if plain_name(one.name) == plain_name(kernel.entry)}) > 1


def with_what_lies_beside(report: KernelReport, kernel: SourceKernel) -> KernelReport:
    """The report, which names the other kernels and instantiations that the source launches and it says nothing of."""
    others = tuple(one for one in kernel.others if kernel.together is None and one not in kernel.stages)
    assumed = (*report.assumed, *not_judged(others or _of_other_ways(kernel)))
    return replace(report, beside=kernel.beside, instantiations=others, assumed=assumed)


def _of_other_ways(kernel: SourceKernel) -> tuple[str, ...]:
    """Of kernels that are judged as one, the instantiations that other ways through the host code launch."""
    if kernel.together is None or kernel.host is None:
        return ()
    taken = {plain_name(one.entry): split_template(one.entry)[1] for one in kernel.together.stages}
    every = [one.kernel for run in kernel.host.runs for one in run.launches if plain_name(one.kernel.name) in taken]
    others = [one for one in every if tuple(one.arguments) != tuple(taken[plain_name(one.name)])]
    return tuple(dict.fromkeys(f"{plain_name(one.name)}<{', '.join(one.arguments)}>" for one in others))


def _arguments(instantiation: str) -> set[tuple[int, str]]:
    return set(enumerate(split_template(instantiation)[1]))
