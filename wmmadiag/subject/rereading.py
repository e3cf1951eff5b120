"""A finished run read otherwise: the same bytes under another reading of the kernel, without running it again."""

from __future__ import annotations

import math

import numpy as np

from wmmadiag.errors import WmmadiagError
from wmmadiag.ops.evaluation import reference
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card
from wmmadiag.subject.storage import is_poison

_NEAR = 0.02  # of the largest element: wider than rounding to 8 bits
_LARGEST = 1 << 28  # multiply-adds of a reference; a larger case is not looked at


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


def nearness(bound: BoundCase) -> float:
    """Which part of all outputs lies near what is expected; a hundredth of it by chance.

    An element that nobody wrote, or that is no number where one is expected, is not near.
    """
    operation = bound.card.computes.operation
    inputs = bound.inputs()
    if math.prod(max((one.shape for one in inputs.values()), key=math.prod, default=(0,))) > _LARGEST:
        return 0.0
    try:
        with np.errstate(all="ignore"):
            expected = reference(operation, bound.parameters, inputs)
    except (ValueError, IndexError):
        return 0.0  # shapes that the operation cannot combine
    parts: list[tuple[int, int]] = []
    for role, observed in bound.outputs().items():
        if role not in expected:
            continue
        wanted = expected[role]
        if wanted.size != observed.size:
            return 0.0
        wanted = wanted.reshape(observed.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            same = np.isinf(observed) & (wanted.astype(observed.dtype) == observed)  # too large for its type
        largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.abs(observed.astype(np.float64) - wanted) <= _NEAR * largest
        argument = bound.argument_of(role)
        if argument.spec.direction == "out" and argument.spec.initial == "poison":
            near &= ~is_poison(observed, argument.spec.element, argument.index)
        near |= ~np.isfinite(wanted) | same
        # What an activation makes zero is right under many a reading.
        telling = (observed != 0) | ~near
        parts.append((int((near & telling).sum()), int(telling.sum())))
    total = sum(count for _, count in parts)
    return sum(count for count, _ in parts) / total if total else 0.0
