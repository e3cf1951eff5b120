"""What each warp of a block contributes to the output: which elements it stores, and how many of these are wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator import EmulatedKernel
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.writers import WARPS, Writers, last_writers

Mask = NDArray[np.bool_]
_LANES = 32


@dataclass(frozen=True, slots=True)
class WarpWork:
    """Who stores what of the outputs, in the order of the warps and in the reverse order."""

    warps: int  # of a block
    # stored, wrong: by warp, over all blocks: elements that it stored last, and how many of these are wrong
    stored: tuple[int, ...]
    wrong: tuple[int, ...]
    nobody: int  # wrong elements that no warp stores
    # elements that another warp stores last when the warps run in the reverse order: two store them, and nothing orders
    # these stores
    contested: int
    holders: tuple[tuple[int, int], ...]  # pairs of warps of one block that contest elements

    @property
    def guilty(self) -> tuple[int, ...]:
        """Warps of whose elements some are wrong."""
        return tuple(warp for warp, count in enumerate(self.wrong) if count)

    @property
    def innocent(self) -> tuple[int, ...]:
        """Warps all of whose elements are right."""
        return tuple(warp for warp, count in enumerate(self.stored) if count and not self.wrong[warp])

    @property
    def idle(self) -> tuple[int, ...]:
        """Warps that store nothing that stays."""
        return tuple(warp for warp, count in enumerate(self.stored) if not count)


def shared_tiles(work: WarpWork) -> str:
    """Which warps contest which share of the output, and what is left to nobody, as a clause; "" where none does."""
    if not work.contested:
        return ""
    pairs = ", ".join(f"{a} and {b}" for a, b in work.holders[:4])
    none = f", and {work.nobody:,} are stored by none" if work.nobody else ""
    return f"{work.contested:,} elements are stored by two warps ({pairs}){none}"


def warp_work(bound: BoundCase, kernel: EmulatedKernel, wrong: Mapping[str, Mask]) -> WarpWork | None:
    """Two watched runs of a case that ends.

    Args:
        bound: the case; it is bound anew, its arrays stay as they are.
        wrong: role → mask of wrong elements, in the shape of the logical tensor.

    Returns:
        None where the watched run does not end.
    """
    x, y, z = bound.launch.block
    warps = -(-x * y * z // _LANES)
    forth = _by_role(bound, kernel, tuple(wrong), range(warps))
    back = _by_role(bound, kernel, tuple(wrong), range(warps - 1, -1, -1))
    if forth is None or back is None:
        return None
    stored, faulty = np.zeros(warps, np.int64), np.zeros(warps, np.int64)
    nobody = contested = 0
    holders: set[tuple[int, int]] = set()
    for role, mask in wrong.items():
        first, second = forth[role], back[role]
        there = first >= 0
        stored += np.bincount(first[there] % WARPS, minlength=warps)[:warps]
        faulty += np.bincount(first[there & mask] % WARPS, minlength=warps)[:warps]
        nobody += int(np.count_nonzero(mask & ~there))
        other = there & (second >= 0) & (first != second) & (first // WARPS == second // WARPS)
        contested += int(np.count_nonzero(other))
        pairs = np.unique(np.stack([first[other] % WARPS, second[other] % WARPS], axis=-1), axis=0)
        holders |= {(min(a, b), max(a, b)) for a, b in pairs.tolist()}
    return WarpWork(
        warps, tuple(stored.tolist()), tuple(faulty.tolist()), nobody, contested, tuple(sorted(holders))
    )  # fmt: skip


def _by_role(
    bound: BoundCase, kernel: EmulatedKernel, roles: Sequence[str], order: Sequence[int]
) -> dict[str, Writers] | None:
    fresh = bind(bound.card, bound.case, bound.variant, seed=bound.seed, inputs=bound.distribution)
    placed = {role: one for one in fresh.arguments for role in one.placements if role in roles}
    found = last_writers(fresh, kernel, [one.spec.name for one in placed.values()], warp_order=tuple(order))
    if any(one.spec.name not in found for one in placed.values()):
        return None
    return {role: np.asarray(one.placements[role].view(found[one.spec.name])) for role, one in placed.items()}


def named(warps: Sequence[int]) -> str:
    """ "warp 3", "warps 0 to 3", "warps 0, 2 and 5"."""
    if len(warps) == 1:
        return f"warp {warps[0]}"
    if list(warps) == list(range(warps[0], warps[-1] + 1)):
        return f"warps {warps[0]} to {warps[-1]}"
    return f"warps {', '.join(map(str, warps[:-1]))} and {warps[-1]}"
