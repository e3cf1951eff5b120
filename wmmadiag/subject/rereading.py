"""A finished run read otherwise: the same bytes under another reading of the kernel, without running it again."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wmmadiag.errors import WmmadiagError
from wmmadiag.ops.evaluation import reference
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card
from wmmadiag.subject.storage import is_poison

_NEAR = 0.02  # of the largest element: wider than rounding to 8 bits
_WHOLE = 0.51  # a whole number is that far from what was rounded to it, and from no other number's
_LARGEST = 1 << 28  # multiply-adds of a reference; a larger case is not looked at
_KNOWN = 1 << 19  # elements of a result whose other order is kept


def reread(bound: BoundCase, card: Card) -> BoundCase | None:
    """The case as another card reads it, holding what the run left; None where that card would have run otherwise.

    Args:
        bound: a case that has run; its arrays hold what the kernel left.
        card: of the same kernel.
    """
    try:
        case = card.case(bound.case.name)
        variant = card.variant(bound.variant.name)
        other = bind(card, case, variant, seed=bound.seed, inputs=bound.distribution, empty=True)
    except WmmadiagError:
        return None  # its shapes do not fit
    if not _ran_so(bound, other):
        return None
    for one, own in zip(other.arguments, bound.arguments, strict=True):
        if one.storage is not None and own.storage is not None and one.original is not None:
            assert own.original is not None
            count = one.storage.size
            one.storage[...] = own.storage[:count]
            one.original[...] = own.original[:count]
    return other


def _ran_so(bound: BoundCase, other: BoundCase) -> bool:
    """Whether a launch would have been the same, but for the values of inputs."""
    first, second = bound.launch, other.launch
    if (first.grid, first.block, first.shared_bytes) != (second.grid, second.block, second.shared_bytes):
        return False
    if len(bound.arguments) != len(other.arguments):
        return False
    for one, own in zip(bound.arguments, other.arguments, strict=True):
        if (one.storage is None) != (own.storage is None):
            return False
        if one.storage is None or own.storage is None:
            if one.scalar != own.scalar or type(one.scalar) is not type(own.scalar):
                return False
        elif one.storage.dtype != own.storage.dtype or own.storage.size > one.storage.size:
            return False
        elif own.storage.size < one.storage.size and own.spec.direction != "in":
            return False  # only of an input a part may be read
        elif _is_read(own.spec.direction) and not _is_read(one.spec.direction):
            return False  # what the kernel read there was poison
    return True


def _is_read(direction: str) -> bool:
    return direction in ("in", "inout")


def unwritten(bound: BoundCase) -> float:
    """Which part of the outputs nobody wrote."""
    total = count = 0
    for role, observed in bound.outputs().items():
        argument = bound.argument_of(role)
        if argument.spec.direction == "out" and argument.spec.initial == "poison":
            count += int(is_poison(observed, argument.spec.element, argument.index).sum())
        total += observed.size
    return count / total if total else 0.0


class Nearness(NamedTuple):
    """How much of all outputs lies near what is expected.

    Attributes:
        part: of the elements.
        beyond_chance: the same where none is left of what as many elements in another order would have: 0 where the
            most are small beside the largest, and so near whatever they mean.
    """

    part: float = 0.0
    beyond_chance: float = 0.0


def nearness(bound: BoundCase) -> Nearness:
    """How much of all outputs lies near what is expected.

    An element that nobody wrote, or that is no number where one is expected, is not near.
    """
    operation = bound.card.computes.operation
    inputs = bound.inputs()
    if math.prod(max((one.shape for one in inputs.values()), key=math.prod, default=(0,))) > _LARGEST:
        return Nearness()
    try:
        with np.errstate(all="ignore"):
            expected = reference(operation, bound.parameters, inputs)
    except (ValueError, IndexError):
        return Nearness()  # shapes that the operation cannot combine
    counts = np.zeros((2, 2), np.int64)  # as they are, in another order; near, telling
    for role, observed in bound.outputs().items():
        if role not in expected:
            return Nearness()  # the operation does not tell it of these inputs
        wanted = expected[role]
        if wanted.size != observed.size:
            return Nearness()
        argument = bound.argument_of(role)
        written = np.ones(observed.size, bool)
        if argument.spec.direction == "out" and argument.spec.initial == "poison":
            written = ~is_poison(observed, argument.spec.element, argument.index).ravel()
        counts += _counts(observed.ravel(), wanted.ravel(), written)
    (near, telling), (by_chance, of) = counts.tolist()
    part, chance = near / telling if telling else 0.0, by_chance / of if of else 0.0
    return Nearness(part, max(0.0, (part - chance) / (1 - chance)) if chance < 1 else float(part == 1))


def _counts(
    observed: NDArray[Any], wanted: NDArray[Any], written: NDArray[np.bool_]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """How many elements are near, and of how many, as they are and in another order.

    What an activation makes zero is right under many a reading, and no element that tells anything.
    """
    finite = np.isfinite(wanted)
    every = bool(finite.all())
    within = _NEAR * np.abs(wanted if every else wanted[finite]).max(initial=0.0)
    if np.issubdtype(observed.dtype, np.integer):
        within = max(within, _WHOLE)
    infinite = np.isinf(observed)
    too_large = bool(infinite.any())  # for its type

    def near(observed: NDArray[Any], values: NDArray[Any], written: NDArray[np.bool_]) -> tuple[int, int]:
        with np.errstate(over="ignore", invalid="ignore"):
            found = (np.abs(values - wanted) <= within) & written
            if too_large:
                found |= np.isinf(observed) & (wanted.astype(observed.dtype) == observed)
        if not every:
            found |= ~finite
        telling = (observed != 0) | ~found
        return int((found & telling).sum()), int(telling.sum())

    values, order = observed.astype(np.float64), _order(observed.size)
    return near(observed, values, written), near(observed[order], values[order], written[order])


def _order(size: int) -> NDArray[np.int64]:
    return _known_order(size) if size <= _KNOWN else np.random.default_rng(0).permutation(size)


@lru_cache(maxsize=8)
def _known_order(size: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).permutation(size)
