"""Another shape in which host code launches a kernel, besides the one that is taken: `for (int threads : {32, 1024})`.

A block of one warp needs no barrier, so that one which is missing shows with larger blocks alone. Numbers of blocks and
of shared memory that host code gives several values are symbols of a card then, and one more case has others of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.events import HostLaunch
from wmmadiag.hostcode.host import HostRun
from wmmadiag.hostcode.program import plain_name
from wmmadiag.hostcode.terms import Number, SymbolValues, Term, symbols, value
from wmmadiag.hostcode.values import Value
from wmmadiag.subject.drafts.guards import Tiling

_MOST_THREADS = 1024  # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
_SAMPLES = (768, 4001)  # of sizes that nobody says


@dataclass(frozen=True, slots=True)
class OtherShape:
    """A launch of the same kernel in another shape."""

    numbers: Mapping[str, Number] = field(default_factory=dict)  # what host symbols are then, by name; empty for none
    tiling: Tiling = field(default_factory=Tiling)  # how the code goes over its numbers then


def other_numbers(
    launch: HostLaunch | None, run: HostRun | None, runs: Sequence[HostRun], bounds: Sequence[str],
    constants: Mapping[str, Number],
) -> dict[str, Number]:  # fmt: skip
    """What the symbols of a launch's shape are in the launch that differs most from it: in the largest of all.

    Where the taken one is the largest, in the smallest. Empty where host code launches the kernel in one shape alone,
    or gives it other numbers, too.

    Args:
        launch, run: what is taken. runs: of the host code.
        bounds: of the kernel's `__launch_bounds__`; constants: numbers that its code knows by name.
    """
    if launch is None or run is None:
        return {}
    most = _most_threads(bounds, constants)
    found: list[tuple[tuple[Number, ...], dict[str, Number]]] = []
    for other, of in _alike(launch, runs):
        changed = _changed(launch, run, other, of)
        key = _size(launch, {**run.machine.usual, **changed})
        if changed and key is not None and 0 < key[0] <= most:
            found.append((key, changed))
    own = _size(launch, run.machine.usual)
    if not found or own is None:
        return {}
    largest, changed = max(found, key=lambda one: one[0])
    return changed if largest > own else min(found, key=lambda one: one[0])[1]


def _alike(launch: HostLaunch, runs: Sequence[HostRun]) -> Iterator[tuple[HostLaunch, HostRun]]:
    """Launches of the same instantiation."""
    for run in runs:
        for one in (*run.launches, *run.machine.further):
            same = plain_name(one.kernel.name) == plain_name(launch.kernel.name)
            if same and one.kernel.arguments == launch.kernel.arguments and one is not launch:
                yield one, run


def _most_threads(bounds: Sequence[str], constants: Mapping[str, Number]) -> Number:
    """The most threads that a block may have; 0 where the kernel's bounds are not known."""
    if not bounds:
        return _MOST_THREADS
    try:
        return min(_MOST_THREADS, value(terms.parsed(bounds[0]), constants) or 0)
    except terms.NotWritten:
        return 0


def _shape(launch: HostLaunch) -> list[Value]:
    return [*(launch.block.members[axis].value for axis in "xyz"), launch.shared]


def _size(launch: HostLaunch, usual: SymbolValues) -> tuple[Number, ...] | None:
    """(threads of a block, bytes of shared memory); None where one is not known."""
    *block, shared = (value(one, usual) if isinstance(one, Term) else None for one in _shape(launch))
    known = [one for one in block if one is not None]
    return (math.prod(known), shared) if len(known) == len(block) and shared is not None else None


def _changed(launch: HostLaunch, run: HostRun, other: HostLaunch, of: HostRun) -> dict[str, Number]:
    """What symbols of a launch's shape have to be for it to be another launch; empty where nothing makes it that."""
    found: dict[str, Number] = {}
    for one, its in zip(_shape(launch), _shape(other), strict=True):
        for name, number in _pairs(one, its, of.machine.usual):
            found.setdefault(name, number)
    changed = {name: number for name, number in found.items() if run.machine.usual.get(name) not in (None, number)}
    if not changed:
        return {}
    mine = [*_shape(launch), *(launch.grid.members[axis].value for axis in "xyz"), *launch.arguments]
    others = [*_shape(other), *(other.grid.members[axis].value for axis in "xyz"), *other.arguments]
    pairs = [pair for pair in zip(mine, others, strict=True) if isinstance(pair[0], Term) or isinstance(pair[1], Term)]
    for sample in _SAMPLES:
        for one, its in pairs:
            if _sampled(one, {**run.machine.usual, **changed}, sample) != _sampled(its, of.machine.usual, sample):
                return {}
    return changed


def _sampled(one: Value, usual: SymbolValues, sample: int) -> Number | None:
    if not isinstance(one, Term):
        return None
    return value(one, {**dict.fromkeys(symbols(one), sample), **usual})


def _pairs(one: object, other: object, usual: SymbolValues) -> Iterable[tuple[str, Number]]:
    """(symbol of a term, what stands in its place in another), where the two are alike."""
    if not isinstance(one, Term) or not isinstance(other, Term):
        return
    if one.op == "symbol":
        number = value(other, usual)
        if number is not None:
            yield one.args[0], number
    elif one.op == other.op and len(one.args) == len(other.args):
        for pair in zip(one.args, other.args, strict=True):
            yield from _pairs(*pair, usual)
