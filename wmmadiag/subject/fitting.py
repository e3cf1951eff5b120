"""Which other reading of a kernel makes its wrong result right: found from the result itself.

BLAS code stores columns, `nn.Linear` stores B as N×K, a causal kernel may have no flag. A result that is wrong as it is
read and right to the last element under another reading of the same bytes says which one is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.errors import ConfigurationError
from wmmadiag.ops import OPERATIONS, Operation, Reading, readings
from wmmadiag.ops.evaluation import judge, reference
from wmmadiag.ops.model import Arrays
from wmmadiag.ops.readings import listed
from wmmadiag.ops.shapes import floating_operations
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.card import Card
from wmmadiag.subject.placement import place_view
from wmmadiag.subject.readings import assumed_reading, card_read_as
from wmmadiag.subject.symbols import GivenParameters, case_scope, evaluate_parameters

_LARGEST = 1 << 32  # floating-point operations of all references together; a larger case is not looked at
_LARGE_PART = 0.2  # of the elements; chance gives a thousandth of that
_JUDGED = 6  # readings, those first that come nearest, as a bound costs more than a reference
_NEAR = 0.03  # of the largest element, wider than rounding to 8 bits


@dataclass(frozen=True, slots=True)
class Meant:
    """A reading under which a result is right, wholly or in part."""

    operation: Operation
    reading: Reading

    @property
    def assumable(self) -> bool:
        """Whether kernels are written so on purpose; a scale that is left out is a mistake as often."""
        return self.reading.deliberate

    def meaning(self) -> str:
        """In words: "B stored as N×K, as nn.Linear has it"."""
        return self.reading.name

    def settings(self) -> str:
        """As a card says it: "transpose_b = true"."""
        said = []
        for name, value in self.reading.parameters.items():
            kind = self.operation.parameters[name].kind
            text = str(value) not in ("0", "False", "false") if kind == "flag" else value
            said.append(f'{name} = "{value}"' if kind == "word" else f"{name} = {str(text).lower()}")
        by_layout: dict[str, list[str]] = {}
        for role, layout in self.reading.layouts.items():
            by_layout.setdefault(layout, []).append(role)
        said += [f'layout = "{layout}" for {listed(roles)}' for layout, roles in by_layout.items()]
        if self.reading.packed is not None:
            said.append('role = "{}" with layout = "{}"'.format(*self.reading.packed))
        said += [f'role = "{new}" for what has the role {old}' for old, new in self.reading.roles.items()]
        return " and ".join(said)


@dataclass(frozen=True, slots=True)
class _Read:
    """A finished run under one reading: what the kernel got and gave, and what it should have given.

    `roles`: what became of the card's own.
    """

    inputs: Arrays
    outputs: Arrays
    parameters: GivenParameters
    roles: Mapping[str, str]
    expected: Arrays = field(default_factory=dict)

    def of_one(self, operation: Operation) -> _Read:
        """The last one of what is computed separately: one head of an attention, one matrix of a batch."""

        def last(role: str, array: NDArray[Any]) -> NDArray[Any]:
            whole = operation.roles[role].shape if role in operation.roles else ()
            shape = whole[max(0, len(whole) - array.ndim) :]  # a single sum has no axis at all
            cut = [slice(-1, None) if text in operation.separate else slice(None) for text in shape]
            return array[(..., *cut)] if cut else array

        return replace(
            self,
            inputs={role: last(role, array) for role, array in self.inputs.items()},
            outputs={role: last(role, array) for role, array in self.outputs.items()},
        )

    def same(self, other: _Read) -> bool:
        """Whether it cannot be told from another reading of this run."""
        return all(
            role in other.outputs
            and np.array_equal(array, other.outputs[role], equal_nan=True)
            and np.array_equal(self.expected[role], other.expected[role], equal_nan=True)
            for role, array in self.outputs.items()
        )


def fitting_reading(bound: BoundCase) -> tuple[Meant, float] | None:
    """The one other reading under which a finished, wrong run is right, and which part of its elements is.

    A part is enough if it is a large one and no other reading, the stated one included, has nearly as much: a kernel
    that is wrong in places still shows what it means. What a card states of its memory (strides, padding, shapes) is
    meant and not asked. None if no reading stands out, or the case is too large to try them.
    """
    operation = OPERATIONS[bound.card.computes.operation]
    candidates = list(_candidates(bound.card, operation))
    stated = _Read(bound.inputs(), bound.outputs(), bound.parameters, {}).of_one(operation)
    shapes = {role: array.shape for role, array in {**stated.inputs, **stated.outputs}.items()}
    cost = floating_operations(operation, shapes, bound.parameters) + sum(a.size for a in stated.outputs.values())
    if not candidates or cost * len(candidates) > _LARGEST:
        return None
    known = [_expected(operation, stated)]
    found: list[_Fitted] = []
    for reading, card in candidates:
        seen = _reread(bound, card, reading)
        part = None if seen is None else _tried(operation, seen.of_one(operation))
        if seen is None or part is None:
            continue
        if not any(part.same(other) for other in known):
            known.append(part)
            found.append(_Fitted(_near_part(part), reading, part, seen))
    likely = sorted((one for one in found if one.part >= _LARGE_PART), key=lambda one: -one.part)[:_JUDGED]
    judged = [replace(one, part=_right_part(bound, operation, one.of_one)) for one in likely]
    judged.sort(key=lambda one: -one.part)  # stable: those with the fewest changes first
    if not judged or judged[0].part < _LARGE_PART:
        return None
    best = judged[0]
    certain = {one.reading.name for one in judged}
    rivals = [*judged[1:], *(one for one in found if one.reading.name not in certain)]  # near is no less than right
    others = [one.part for one in rivals if not _adds(one.reading, best.reading)]
    if best.part < 1.0 and max([_right_part(bound, operation, known[0]), *others]) > best.part / 4:
        return None
    return Meant(operation, best.reading), _right_part(bound, operation, _expected(operation, best.whole))


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A reading with the part of the elements that it explains: of one matrix, and the whole run."""

    part: float
    reading: Reading
    of_one: _Read
    whole: _Read


def _adds(one: Reading, other: Reading) -> bool:
    """Whether a reading is another with more changes: it is right in some of the same places."""
    return (
        dict(other.parameters).items() <= dict(one.parameters).items()
        and dict(other.layouts).items() <= dict(one.layouts).items()
        and dict(other.roles).items() <= dict(one.roles).items()
    )


def _candidates(card: Card, operation: Operation) -> Iterator[tuple[Reading, Card]]:
    """Readings that the same run can be judged by: two answers changed, or three of how tensors are stored."""
    assumed = assumed_reading(card)
    both = readings(operation, assumed, changes=2, kinds=("storage", "meaning"))
    stored = (one for one in readings(operation, assumed, kinds=("storage",)) if len(one.questions) > 2)
    outputs = {name for name, role in operation.roles.items() if role.output}
    for reading in chain(both, stored):
        if not outputs & set(reading.roles):  # an output that is read, too, would have held something else before
            yield reading, card_read_as(card, reading)


def _reread(bound: BoundCase, card: Card, reading: Reading) -> _Read | None:
    """The same bytes as another card reads them; None where its tensors do not fit into their storage."""
    inputs: dict[str, NDArray[Any]] = {}
    outputs: dict[str, NDArray[Any]] = {}
    try:
        scope = case_scope(card, bound.case, bound.variant)
        parameters = evaluate_parameters(card.computes, scope)
        for argument, memory in zip(card.arguments, bound.arguments, strict=True):
            for view in argument.views:
                assert memory.storage is not None and memory.original is not None
                placement = place_view(card, argument, view, scope)
                if placement.end > memory.storage.size:
                    return None
                if argument.direction in ("in", "inout"):
                    inputs[view.role] = placement.view(memory.original)
                if argument.direction in ("out", "inout"):
                    outputs[view.role] = placement.view(memory.storage)
    except ConfigurationError:
        return None
    return _Read(inputs, outputs, parameters, reading.roles)


def _expected(operation: Operation, seen: _Read) -> _Read:
    return replace(seen, expected=reference(operation.name, seen.parameters, seen.inputs))


def _tried(operation: Operation, seen: _Read) -> _Read | None:
    """What a reading expects; None where it makes no sense of the inputs."""
    try:
        return _expected(operation, seen)
    except ConfigurationError:
        return None


def _near_part(seen: _Read) -> float:
    """Which part of the elements is about right: no less than is right, and cheaper to say."""
    observed, expected = _pairs(seen)
    return _part(
        observed, expected, {role: _NEAR * np.nanmax(np.abs(one), initial=0.0) for role, one in expected.items()}
    )


def _right_part(bound: BoundCase, operation: Operation, seen: _Read) -> float:
    """Which part of the elements of all outputs is right."""
    observed, expected = _pairs(seen)
    types = bound.elements()
    elements = {**types, **{new: types[old] for old, new in seen.roles.items()}}
    judged = judge(operation.name, seen.parameters, seen.inputs, seen.expected, elements)
    bounds = {role: one.bound.reshape(observed[role].shape) for role, one in judged.items() if role in observed}
    return _part(observed, expected, bounds)


def _pairs(seen: _Read) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Outputs as they are and as they should be, by role, of the same shapes."""
    observed = {role: array.astype(np.float64) for role, array in seen.outputs.items() if role in seen.expected}
    return observed, {role: seen.expected[role].reshape(array.shape) for role, array in observed.items()}


def _part(observed: Arrays, expected: Arrays, within: Mapping[str, Any]) -> float:
    """Which part of the elements differs by no more than is allowed.

    What an activation makes zero is right under many a reading, and tells nothing.
    """
    count = right = 0
    for role, limit in within.items():
        with np.errstate(invalid="ignore"):
            good = (observed[role] == expected[role]) | (np.abs(observed[role] - expected[role]) <= limit)
        telling = (observed[role] != 0) | ~good
        count, right = count + int(telling.sum()), right + int((good & telling).sum())
    return right / count if count else 1.0
