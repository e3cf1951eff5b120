"""The launch of a kernel that no host code launches, found by runs of a few blocks: what each of them writes.

One block alone shows its tile of the output, a second one along each axis of the grid where the next tile lies. A block
whose tiles meet without a gap and without overlapping has the right number of threads, and a grid that covers the
output follows. Whether the result is right is to be judged by a run of the whole: here no number is looked at.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from wmmadiag.errors import BudgetError, WmmadiagError
from wmmadiag.launch import Dim3, LoadedKernel
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.binding import BoundArgument, BoundCase, bind
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_session import CardSession

_WARP, _MOST_THREADS = 32, 1024
_USUAL = (128, 256, 64, 32, 512, 1024)
_USUAL_FLAT = ((32, 4), (32, 8), (32, 2), (128, 4), (64, 4), (64, 2), (128, 2), (16, 16), (8, 8), (32, 16), (32, 32))
_MOST_BLOCKS = 12  # that are tried
_MOST_TILES = 4096  # of one run
_SHARED_STEP = 16  # bytes

_Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ProbedLaunch:
    """A launch that covers the output."""

    grid: tuple[str, ...]  # expressions over the symbols of the operation, x first; `block`: threads, x first
    block: tuple[int, ...]
    tiles: Mapping[str, int]  # how many elements of an extent a block computes, by its symbol
    exact: bool  # whether tiles neither overlap nor leave anything out


@dataclass(frozen=True, slots=True)
class _Box:
    """A box of elements: its first corner, and how far it reaches along each axis."""

    low: tuple[int, ...]
    extent: tuple[int, ...]


def likely_blocks(code: str, numbers: Iterable[float], bounds: Sequence[int]) -> list[tuple[int, ...]]:
    """The blocks that a kernel may be made for, the likeliest first.

    Args:
        code: what it runs, as text.
        numbers: constants that it names.
        bounds: of its threads, as `__launch_bounds__` has them.
    """
    most = min([one for one in bounds if one > 0] or [_MOST_THREADS])
    named = {int(one) for one in numbers if one == int(one)} | {int(one) for one in re.findall(r"\b\d{1,4}\b", code)}
    named |= {_WARP * one for one in named if 1 < one <= _MOST_THREADS // _WARP}
    named = {one for one in named if _WARP <= one <= most and one % _WARP == 0}
    usual = [one for one in _USUAL if one <= most]
    lines: list[tuple[int, ...]] = [(most,)] if most < _MOST_THREADS else []
    lines += [(one,) for one in usual if one in named]
    lines += [(one,) for one in sorted(named - set(usual))]
    lines += [(one,) for one in usual]
    if re.search(r"\b(?:threadIdx|blockDim)\s*\.\s*y\b", code):
        flat = [one for one in _USUAL_FLAT if math.prod(one) <= most]
        return [*flat, *dict.fromkeys(lines)][:_MOST_BLOCKS]
    return list(dict.fromkeys(lines))[:_MOST_BLOCKS]


def probed_launches(card: Card, session: CardSession, blocks: Sequence[tuple[int, ...]]) -> Iterator[ProbedLaunch]:
    """The launches under which a kernel's blocks cover its output, those with tiles that fit exactly first.

    Args:
        card: with one case, whose extents differ and hold several tiles; its grid and block do not matter.
        session: of that card, without checks.
        blocks: that are tried, in their order.
    """
    try:
        bound = bind(card, card.cases[0], card.variants[0])
        kernel = session.kernel(bound.case, bound.variant).kernel
    except WmmadiagError:
        return
    output = _largest_output(bound)
    if output is None:
        return
    argument, role = output

    def written(grid: Dim3, block: tuple[int, ...]) -> _Mask | None:
        shared = bound.launch.shared_bytes
        return _written_over(argument, lambda: _written(session, bound, kernel, argument, grid, block, shared))

    optional = OPERATIONS[card.computes.operation].optional
    alone = "" if any(optional == one.value for one in card.arguments) else optional  # its own code may count it
    later: list[ProbedLaunch] = []
    for block, first in _with_tiles(blocks, lambda block: written((1, 1, 1), block)):
        shape, symbols = argument.placements[role].shape, _extents(card, role)
        for layout in _layouts(card, argument, role):
            covered = False
            for found in _coverings(block, first, layout, shape, symbols, alone, written):
                covered = True
                if found.exact:
                    yield found
                else:
                    later.append(found)
            if covered:
                break
    yield from later


def _with_tiles(
    blocks: Sequence[tuple[int, ...]], written: Callable[[tuple[int, ...]], _Mask | None]
) -> Iterator[tuple[tuple[int, ...], _Mask]]:
    """Blocks that write something, with what it is; of those that write the same the smallest first.

    What more threads write as well is written twice, which is right at best.
    """
    tile = cache(written)
    done: set[tuple[int, ...]] = set()
    for block in blocks:
        first = tile(block)
        if first is None or not first.any():
            continue
        fewer = sorted((one for one in blocks if math.prod(one) < math.prod(block)), key=math.prod)
        for one in (*fewer, block):
            same = one not in done and ((own := tile(one)) is not None and np.array_equal(own, first))
            if same:
                done.add(one)
                yield one, first


def least_shared(card: Card, session: CardSession, block: tuple[int, ...]) -> int:
    """The fewest bytes of dynamic shared memory with which a block writes what it writes with those of the card."""
    bound = bind(card, card.cases[0], card.variants[0])
    kernel = session.kernel(bound.case, bound.variant).kernel
    output = _largest_output(bound)
    most = bound.launch.shared_bytes // _SHARED_STEP
    if output is None:
        return bound.launch.shared_bytes

    def suffices(steps: int) -> bool:
        return _written(session, bound, kernel, output[0], (1, 1, 1), block, steps * _SHARED_STEP) is not None

    return _SHARED_STEP * bisect_left(range(most), True, key=suffices)


def _written(
    session: CardSession,
    bound: BoundCase,
    kernel: LoadedKernel,
    output: BoundArgument,
    grid: Dim3,
    block: tuple[int, ...],
    shared: int,
) -> _Mask | None:
    """Which elements of an output's storage a grid of blocks writes; None if the run dies.

    Raises:
        BudgetError: it does not end.
    """
    for one in bound.arguments:
        if one.storage is not None:
            one.storage[...] = one.original
    x, y, z = (*block, 1, 1)[:3]
    try:
        session.runs.launch(kernel, replace(bound.launch, grid=grid, block=(x, y, z), shared_bytes=shared))
    except BudgetError:
        raise  # it ends under no launch
    except WmmadiagError:
        return None
    assert output.storage is not None and output.original is not None
    size = output.storage.itemsize
    if size in (1, 2, 4, 8):
        whole = np.dtype(f"u{size}")
        same: _Mask = output.storage.view(whole) == output.original.view(whole)
        return ~same
    changed = output.storage.view(np.uint8) != output.original.view(np.uint8)
    mask: _Mask = changed.reshape(output.storage.size, -1).any(axis=1)
    return mask


def _written_over(output: BoundArgument, written: Callable[[], _Mask | None]) -> _Mask | None:
    """Which elements of an output a run writes, be it what they held before: integers are seen over two contents."""
    first, spec = written(), output.spec
    if first is None or spec.direction != "out" or output.original is None or spec.element.is_float:
        return first
    content = output.original.view(np.uint8)
    content ^= 0xFF
    try:
        second = written()
    finally:
        content ^= 0xFF
    return first if second is None else first | second


def _largest_output(bound: BoundCase) -> tuple[BoundArgument, str] | None:
    outputs = [
        (one, role) for one in bound.arguments if one.spec.direction in ("out", "inout") for role in one.placements
    ]
    return max(outputs, key=lambda pair: math.prod(pair[0].placements[pair[1]].shape), default=None)


def _extents(card: Card, role: str) -> tuple[str, ...]:
    known = OPERATIONS[card.computes.operation].roles.get(role)
    if known is not None:
        return known.shape
    shape = next(view.shape for one in card.arguments for view in one.views if view.role == role)  # of a formula
    return tuple(map(str, shape))


def _layouts(card: Card, argument: BoundArgument, role: str) -> list[tuple[int, ...]]:
    """Orders of a role's axes in memory, outermost first: as the card has it, then as other readings do."""
    operation = OPERATIONS[card.computes.operation]
    placement = argument.placements[role]
    rank = len(placement.shape)
    found = [tuple(sorted(range(rank), key=lambda axis: (-placement.strides[axis], axis)))]
    axes = operation.roles[role].axes[-rank:] if role in operation.roles else ""
    for choice in operation.choices:
        for one in choice.alternatives:
            order = "".join(letter for letter in one.layouts.get(role, "") if letter in axes)
            if len(order) == rank:
                found.append(tuple(axes.index(letter) for letter in order))
    return list(dict.fromkeys(found))


def _coverings(
    block: tuple[int, ...],
    first: _Mask,
    layout: tuple[int, ...],
    shape: tuple[int, ...],
    symbols: tuple[str, ...],
    alone: str,
    written: Callable[[Dim3, tuple[int, ...]], _Mask | None],
) -> Iterator[ProbedLaunch]:
    """The grids of such blocks that cover an output that lies so; those with one extent to each of their axes first.

    Without guards, what lies behind one matrix is the next: what its blocks write does not tell whether an axis of the
    grid counts both.

    Args:
        first: which elements of the storage the first block writes.
        shape: of the output, `symbols`: its extents as expressions, those of a leading axis that it lacks before.
        alone: an extent that is only counted by an axis of the grid of its own.
        written: what a grid of blocks writes; None if the run dies.
    """
    tile = _box(first, layout, shape)
    if tile is None or any(tile.low):
        return
    seen = cache(lambda grid: written(grid, block))
    yield from _Covering(block, first, tile, layout, shape, symbols[-len(shape) :], alone, seen).grids(
        (), {axis: tile.extent[axis] for axis in range(len(shape)) if tile.extent[axis] < shape[axis]}, {}, True
    )


@dataclass(frozen=True, slots=True)
class _Covering:
    """One block's tile, seen from which further blocks lie somewhere; see `_coverings`."""

    block: tuple[int, ...]
    first: _Mask
    tile: _Box
    layout: tuple[int, ...]
    shape: tuple[int, ...]
    symbols: tuple[str, ...]
    alone: str
    written: Callable[[Dim3], _Mask | None]

    def grids(
        self, grid: tuple[str, ...], left: Mapping[int, int], steps: Mapping[str, int], exact: bool
    ) -> Iterator[ProbedLaunch]:
        """The launches whose grid begins so. `left`: axes that are not covered, with the tile's extent."""
        if not left:
            while len(grid) > 1 and grid[-1] == "1":
                grid = grid[:-1]
            whole = {self.symbols[axis]: extent for axis, extent in enumerate(self.tile.extent)
                     if extent < self.shape[axis]}  # fmt: skip
            yield ProbedLaunch(grid or ("1",), self.block, {**whole, **steps}, exact)
        elif len(grid) < 3:
            stopped = False
            for factors, rest, found, still in self._stops(len(grid), left, steps, exact):
                stopped = True
                yield from self.grids((*grid, factors), rest, found, still)
            if not stopped:
                yield from self.grids((*grid, "1"), left, steps, exact)

    def _stops(
        self, place: int, left: Mapping[int, int], steps: Mapping[str, int], exact: bool
    ) -> Iterator[tuple[str, Mapping[int, int], Mapping[str, int], bool]]:
        """What one axis of the grid covers: one extent, then that and the next, ….

        Yields: its expression, the axes that are left then, steps by symbol, and whether nothing overlaps.
        """
        shape, symbols = self.shape, self.symbols
        factors: list[str] = []
        left, steps = dict(left), dict(steps)
        count, known, row = 1, self.first, self.tile  # other axes of the grid are seen from the first block again
        while left and count < _MOST_TILES:
            grown = [1, 1, 1]
            grown[place] = count + 1
            more = self.written((grown[0], grown[1], grown[2]))
            next_tile = None if more is None else _box(more & ~known, self.layout, shape)
            if next_tile is None:
                return
            moved = [axis for axis, at in enumerate(next_tile.low) if at > 0]
            if len(moved) != 1 or moved[0] not in left or (factors and symbols[moved[0]] == self.alone):
                return
            axis, step = moved[0], next_tile.low[moved[0]]
            overlap = next_tile.extent[axis] < self.tile.extent[axis]
            if overlap and factors:  # without guards, what lies behind one row is the next
                return
            if overlap:  # what is new of it begins behind the first tile's end
                step = next_tile.extent[axis]
            if step > self.tile.extent[axis]:
                return  # a gap: too few threads
            exact &= not overlap
            steps[symbols[axis]] = step
            del left[axis]
            tiles = -(-shape[axis] // step)
            factors.append(symbols[axis] if step == 1 else f"ceil_div({symbols[axis]}, {step})")
            count *= tiles
            row = _Box(row.low, tuple(shape[one] if one == axis else own for one, own in enumerate(row.extent)))
            known = _filled(row, known, self.layout, shape)
            yield " * ".join(factors), dict(left), dict(steps), exact


def _logical(mask: _Mask, layout: tuple[int, ...], shape: tuple[int, ...]) -> _Mask | None:
    """A storage's elements as a tensor of that shape, whose axes lie in this order; None if they do not fit."""
    lying = tuple(shape[axis] for axis in layout)
    if math.prod(lying) != mask.size:
        return None
    view: _Mask = mask.reshape(lying).transpose(np.argsort(layout))
    return view


def _box(mask: _Mask, layout: tuple[int, ...], shape: tuple[int, ...]) -> _Box | None:
    """The box that elements fill; None if they fill none."""
    view = _logical(mask, layout, shape)
    if view is None or not mask.any():
        return None
    places = np.argwhere(view)  # an output of one element has no axes
    low = tuple(map(int, places.min(axis=0)))
    extent = tuple(int(last) - at + 1 for last, at in zip(places.max(axis=0), low, strict=True))
    return _Box(low, extent) if math.prod(extent) == len(places) else None


def _filled(box: _Box, known: _Mask, layout: tuple[int, ...], shape: tuple[int, ...]) -> _Mask:
    """What is known, and the elements of a box that begins in the corner."""
    mask = known.copy()
    view = _logical(mask, layout, shape)
    assert view is not None
    view[tuple(slice(0, extent) for extent in box.extent)] = True  # a view of `mask`
    return mask
