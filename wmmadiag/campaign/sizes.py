"""Which sizes are worth trying: those around which a kernel changes what it does."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Sizes that a kernel takes."""

    # low, high: first and last
    low: int
    high: int
    multiple_of: int = 1  # of what they all are multiples

    @property
    def first(self) -> int:
        """The smallest that they are, if there is any."""
        return self.low + -self.low % self.multiple_of

    def __contains__(self, size: int) -> bool:
        return self.low <= size <= self.high and size % self.multiple_of == 0


_POWERS = tuple(1 << power for power in range(31))
"""Tiles, warps, vectors and swizzles are powers of two, or few times one, in nearly every kernel."""


def edges(sizes: SizeRange, steps: Iterable[int] = ()) -> tuple[int, ...]:
    """Sizes of a range that stand at an edge: its ends, a power of two and a prime with their neighbours, and `steps`.

    Args:
        steps: sizes behind which the kernel's launch changes.

    Returns:
        Ascending, each a multiple of `sizes.multiple_of`.
    """
    unit = sizes.multiple_of
    first, last = sizes.first, sizes.high // unit * unit
    found = {first, first + unit, last - unit, last}
    for edge in (*_POWERS, *steps):
        at = edge // unit * unit
        found |= {at - unit, at, at + unit}
    for prime in (_prime_below(sizes.high // unit), _prime_below((sizes.low + sizes.high) // 2 // unit), 3, 7, 13):
        found.add(prime * unit)
    return tuple(sorted(size for size in found if size in sizes))


_SCANNED = 4096
"""Sizes at most whose launches are compared."""


def grid_steps(grid_at: Callable[[int], object], sizes: SizeRange) -> tuple[int, ...]:
    """The first, second and last sizes of a range behind which the launch changes: its tiles.

    Args:
        grid_at: the launch for a size; anything that can be compared.
    """
    first = sizes.first
    scanned = range(first, min(sizes.high, first + _SCANNED * sizes.multiple_of) + 1, sizes.multiple_of)
    found: list[int] = []
    before: object = None
    for size in scanned:
        now = grid_at(size)
        if before is not None and now != before:
            found.append(size - sizes.multiple_of)
        before = now
    if len(found) * 4 > len(scanned):
        return ()  # one block for each: no tile
    return tuple(dict.fromkeys([*found[:2], *found[-1:]]))


@lru_cache(maxsize=256)
def _prime_below(limit: int) -> int:
    """The largest prime not above a limit; 1 where there is none."""
    primes = _primes()
    if limit <= primes[-1]:
        at = bisect_right(primes, limit)
        return primes[at - 1] if at else 1
    return next(n for n in range(limit, 1, -1) if all(n % p for p in primes if p * p <= n))


@lru_cache(maxsize=1)
def _primes() -> tuple[int, ...]:
    sieve = bytearray([1]) * 4096
    for n in range(2, 64):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(range(n * n, 4096, n)))
    return tuple(n for n in range(2, 4096) if sieve[n])
