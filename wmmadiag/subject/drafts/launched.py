"""The launch of a kernel that no host code launches: those by which a run of it covers its output."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

from wmmadiag.errors import BudgetError, WmmadiagError
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_session import CardSession
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.model import CardDraft, Wishes
from wmmadiag.subject.probed_launch import ProbedLaunch, least_shared, likely_blocks, probed_launches

_TILES = (64, 128)  # of extents of which no block tells any
ANY_BLOCKS = ("4",)
"""A grid where each block writes the whole output: that of a histogram, or of one sum."""
_MOST_AGAIN = 2
_AXES = 3


def is_only_unlaunched(drafted: CardDraft) -> bool:
    """Whether nothing of a draft is open but how the kernel is launched."""
    return bool(drafted.open) and all(one.about == "launch" for one in drafted.open)


def launched_drafts(
    kernel: SourceKernel,
    drafted_by: Callable[[Wishes], CardDraft],
    wishes: Wishes,
    card: Card,
    session: CardSession,
    groups: str = "",
) -> Iterator[tuple[CardDraft, int]]:
    """The drafts of a kernel by every launch that covers its output, each with the tile of extents that none tells.

    Args:
        drafted_by: drafts the kernel with what is launched so.
        wishes: what the user said; it holds.
        card: with one large case, launched anyhow. session: to run it in.
        groups: of which the case has one, and an axis of the grid has as many as there are.
    """
    if wishes.grid and not wishes.block and not kernel.bounds:
        return
    try:
        card, shared, blocks = _tried_with(kernel, wishes, card, session)
    except WmmadiagError:
        return

    def grouped(found: ProbedLaunch) -> Iterator[ProbedLaunch]:
        whole = (*found.grid, "1", "1")[:_AXES]
        for axis in reversed(range(_AXES)):
            if whole[axis] == "1":
                yield replace(found, grid=(*whole[:axis], groups, *whole[axis + 1 :]))

    again: list[ProbedLaunch] = []
    counts_blocks = re.search(r"\bblockIdx\b", kernel.code) is not None
    with contextlib.suppress(BudgetError):
        launches = probed_launches(card, session, blocks)
        for found in launches if not groups or wishes.grid else chain.from_iterable(map(grouped, launches)):
            if counts_blocks and {*found.grid} == {"1"} and not wishes.grid:
                found = replace(found, grid=ANY_BLOCKS)  # one shows nothing of what a kernel does with its index
            again += [found] if len(again) < _MOST_AGAIN else []
            if shared != "0" and not wishes.shared:
                shared = str(least_shared(card, session, found.block))
            yield _drafted(drafted_by, wishes, found, shared), _TILES[0]
    yield from ((_drafted(drafted_by, wishes, found, shared), _TILES[1]) for found in again)


def _tried_with(
    kernel: SourceKernel, wishes: Wishes, card: Card, session: CardSession
) -> tuple[Card, str, list[tuple[int, ...]]]:
    """The card with all the shared memory that the kernel may use, how much that is, and the blocks that are tried."""
    shared = wishes.shared or _shared(kernel, card, session)
    card = replace(card, launch=replace(card.launch, shared=shared))
    bounds = _bounds(card, session)
    if wishes.block and all(one.isdecimal() for one in wishes.block):
        return card, shared, [tuple(map(int, wishes.block))]
    numbers = [one for one in (*kernel.constants.values(), *kernel.named.values()) if isinstance(one, int | float)]
    return card, shared, likely_blocks(kernel.code, numbers, bounds)


def covering_launches(kernel: SourceKernel, wishes: Wishes, card: Card) -> Iterator[tuple[ProbedLaunch, str]]:
    """The launches by which a kernel's blocks cover the output of a card, and the bytes of dynamic shared memory.

    An axis of the grid that the code names has several blocks: without them another kernel would be as right.

    Args:
        card: with one large case, launched anyhow.
    """
    from wmmadiag.subject.card_session import tried_in

    with contextlib.suppress(WmmadiagError):
        session = tried_in(None, card)
        card, shared, blocks = _tried_with(kernel, wishes, card, session)
        named = {"xyz".index(axis) for axis in re.findall(r"\bblockIdx\s*\.\s*([xyz])\b", kernel.code)}
        for found in probed_launches(card, session, blocks):
            if any((*found.grid, "1", "1")[axis] == "1" for axis in named) and not wishes.grid:
                continue
            yield found, shared if shared == "0" or wishes.shared else str(least_shared(card, session, found.block))


def _drafted(drafted_by: Callable[[Wishes], CardDraft], wishes: Wishes, found: ProbedLaunch, shared: str) -> CardDraft:
    drafted = drafted_by(
        replace(wishes, grid=wishes.grid or found.grid, block=tuple(map(str, found.block)), shared=shared)
    )
    for symbol, step in found.tiles.items():
        drafted.tiles.setdefault(symbol, []).append(step)
    grid, block = (f"({', '.join(map(str, one))})" for one in (found.grid, found.block))
    drafted.remarks.append(
        f"launched with a grid of {grid} and blocks of {block}, by which a run covers the output, since the source has "
        "no launch; --grid and --block say otherwise"
    )
    if shared not in ("0", wishes.shared):
        drafted.remarks.append(
            f"given {shared} bytes of dynamic shared memory, with fewer of which a block reaches beyond its end"
        )
    return drafted


def _shared(kernel: SourceKernel, card: Card, session: CardSession) -> str:
    """All the dynamic shared memory that there is, for a kernel that uses any."""
    from wmmadiag.emulator import EmulatedKernel
    from wmmadiag.emulator.limits import limits

    if not re.search(r"\bextern\s+__shared__", kernel.code):
        return "0"
    loaded = session.kernel(card.cases[0], card.variants[0]).kernel
    taken = loaded.kernel.dynamic_offset if isinstance(loaded, EmulatedKernel) else 0
    return str(limits(session.arch).shared_per_block - taken)


def _bounds(card: Card, session: CardSession) -> list[int]:
    """The most threads of a block, as the compiler has it from the launch bounds."""
    loaded = session.kernel(card.cases[0], card.variants[0])
    symbol = loaded.compilation.entry(card.entry).name
    head = loaded.compilation.ptx.partition(f".entry {symbol}")[2].partition("{")[0]
    return [int(one) for one in re.findall(r"\.(?:maxntid|reqntid)\s+(\d+)", head)]
