"""What a trial is judged by: per element of the outputs, what the judge of cases would take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.trials import JudgedItems
from wmmadiag.errors import UnsupportedError
from wmmadiag.numerics.element_types import ElementType, poison_pattern
from wmmadiag.ops.parts.rounding import Judgement
from wmmadiag.subject.binding import BoundArgument, BoundCase

Doubles: TypeAlias = NDArray[np.float64]

GUARD, FREE = -1, -2
"""Items of a judged array that are no element: must stay as they are; may hold anything (`native/trial.hpp`)."""
_NAN, _PLUS, _MINUS, _NOT_FINITE = 1, 2, 4, 8
"""What is right besides numbers within the bound (`accepts` of `native/trial.hpp`)."""
_ITEMS = {"tf32": "f32", "bool": "u8"}


@dataclass(frozen=True, slots=True)
class Expected:
    """The outputs' elements, numbered one output after the other."""

    arrays: tuple[JudgedItems, ...]  # all array arguments
    # value, bound: float64 per element; the bound is negative where no number is right
    value: Doubles
    bound: Doubles
    accepted: NDArray[np.uint8]  # uint8 per element: which values that are not finite are right


def expected_of(bound: BoundCase, values: Mapping[str, Doubles], judgements: Mapping[str, Judgement]) -> Expected:
    """The elements of a case's outputs.

    Args:
        values, judgements: as `wmmadiag.subject.verdict` has them, by role.

    Raises:
        UnsupportedError: two outputs share memory, so that an element has no one place.
    """
    elements = bound.elements()
    numbers: dict[str, NDArray[Any]] = {}
    first = 0
    for role, output in bound.outputs().items():
        if role in judgements:
            numbers[role] = np.arange(first, first + output.size).reshape(output.shape)
            first += output.size
    arrays = [_array(one, numbers) for one in bound.arguments if one.storage is not None]
    parts = [_accepted(values[role], judgements[role], elements[role]) for role in numbers]
    return Expected(
        tuple(arrays),
        np.concatenate([np.where(np.isfinite(values[role]), values[role], 0.0).reshape(-1) for role in numbers]),
        np.concatenate([part[0].reshape(-1) for part in parts]),
        np.concatenate([part[1].reshape(-1) for part in parts]),
    )


def _array(argument: BoundArgument, numbers: Mapping[str, NDArray[Any]]) -> JudgedItems:
    storage = argument.storage
    assert storage is not None
    spec = argument.spec
    element = np.full(storage.size, FREE if spec.direction == "workspace" else GUARD, np.int32)
    claimed = 0
    for role, placement in argument.placements.items() if spec.direction in ("out", "inout") else ():
        view = placement.view(element)
        view[...] = numbers.get(role, FREE)
        claimed += view.size if role in numbers else 0
    if claimed != int(np.count_nonzero(element >= 0)):
        raise UnsupportedError(
            f"elements of '{spec.name}' share memory", place=spec.place, hint="give each output strides of its own"
        )
    poison = spec.direction == "out" and spec.initial == "poison"
    type_name = _ITEMS.get(spec.element.name, spec.element.name)
    bits = poison_pattern(spec.element, argument.index) if poison else None
    return JudgedItems(argument.index, type_name, element, bits)


def _accepted(value: Doubles, judgement: Judgement, element: ElementType) -> tuple[Doubles, NDArray[np.uint8]]:
    """Bound and accepted values as `wmmadiag.compare.comparison.wrong_elements` has them."""
    finite = np.isfinite(value)
    bound = np.where(finite, judgement.bound, -1.0)
    accepted = np.zeros(value.shape, np.uint8)
    accepted[np.isnan(value)] |= _NAN
    accepted[value == np.inf] |= _PLUS
    accepted[value == -np.inf] |= _MINUS
    if element.is_float:
        with np.errstate(over="ignore", invalid="ignore"):
            reached = np.abs(value) + judgement.bound >= element.largest * (1.0 + element.unit / 2.0)
        accepted[reached & (value > 0)] |= _PLUS
        accepted[reached & (value < 0)] |= _MINUS
    if judgement.nonfinite_ok is not None:
        accepted[judgement.nonfinite_ok] |= _NOT_FINITE
    return bound, accepted
