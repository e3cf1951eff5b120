"""Sizes at which a kernel is held against a host function: small ones in the order of those that are usual."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from wmmadiag.hostcode.terms import Number

_FEW = 64  # up to this a usual number is one of heads or images, which need not be large
_SMALL, _UNKNOWN = 4, (8, 32, 128, 256)
_BLOCK = 256
_TINY = 16  # for kernels that take long: of the extents, where no run at larger ones ended
_ALONE, _ALONE_MORE = 1 << 14, 7  # of one extent alone, and how many times a base is doubled for it


def size_sets(
    free: Sequence[str], held: Sequence[str], usual: Mapping[str, Number], blocks: frozenset[str]
) -> Iterator[dict[str, Number]]:
    """Values of all symbols, several sets.

    Args:
        free: extents, in the order in which functions take them.
        held: symbols that stay as they are: processors, sizes of blocks; `blocks`: those of them that count threads.
        usual: what host code gives symbols.
    """
    kept = {name: usual.get(name, _BLOCK if name in blocks else _SMALL) for name in held}
    known = {name: value for name in free if (value := usual.get(name)) is not None}
    if len(known) == len(free):
        for base in (128, 64, 256, 32):
            yield kept | _scaled(known, base)
        yield kept | known
        yield kept | _scaled(known, _TINY, 2)
        return
    for start in (0, 1):
        counted = iter((*_UNKNOWN[start:], _SMALL, *[_SMALL] * len(free)))
        yield kept | {name: _ALONE >> start if len(free) == 1 else next(counted) for name in free}
    if len(free) == 1:
        yield kept | {free[0]: _ALONE >> 4}
    yield kept | dict.fromkeys(free, 64)
    yield kept | dict.fromkeys(free, _TINY)


def _scaled(known: Mapping[str, Number], base: int, few: int = _SMALL) -> dict[str, Number]:
    """Powers of two in the order of the usual numbers, none of them larger; real numbers as they are.

    Args:
        few: how many heads, images and the like there are at most.
    """
    whole = {name: value for name, value in known.items() if isinstance(value, int)}
    large = sorted({value for value in whole.values() if value > _FEW})
    sizes: dict[str, Number] = dict(known)
    for name, value in whole.items():
        if value < 1:
            continue
        power = 1 << int(math.log2(value))
        if value <= _FEW:
            sizes[name] = min(power, few)
        else:
            sizes[name] = min(power, base << (_ALONE_MORE if len(large) == 1 and base != _TINY else large.index(value)))
    return sizes
