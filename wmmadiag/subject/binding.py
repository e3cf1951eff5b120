"""A card's expressions evaluated for one case and variant: arrays, scalars and the launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.launch import Argument as LaunchArgument
from wmmadiag.launch import ArgumentView, Dim3, Launch
from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import SymbolScope
from wmmadiag.subject.card import Argument, Card, Case, LaunchShape, Tolerance, Variant
from wmmadiag.subject.given_values import given_values, scalar
from wmmadiag.subject.inputs import default_distribution, draw, draw_meaningful
from wmmadiag.subject.placement import place_view
from wmmadiag.subject.shapes import check_shapes
from wmmadiag.subject.storage import Placement, poisoned
from wmmadiag.subject.symbols import GivenParameters, case_scope, evaluate_parameters

MAX_CASE_BYTES = 1 << 30
DISPLACED = "displaced"
"""A case's symbol: bytes by which its arrays lie behind a multiple of 512, as a part of a larger tensor does."""

# CUDA C++ Programming Guide 13, table 30 "Technical Specifications per Compute Capability".
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_BLOCK_LIMITS = (1024, 1024, 64)


@dataclass(frozen=True, slots=True)
class BoundArgument:
    """One argument with its memory."""

    spec: Argument
    index: int  # position in the kernel's signature
    storage: NDArray[Any] | None  # flat array that the kernel gets, or None for a scalar
    original: NDArray[Any] | None  # copy of `storage` before the run
    scalar: np.generic | None  # the value, or None for an array
    placements: Mapping[str, Placement]  # of the logical tensors in the storage, by role

    def view(self, role: str) -> NDArray[Any]:
        """The logical tensor as the kernel left it."""
        assert self.storage is not None
        return self.placements[role].view(self.storage)

    def original_view(self, role: str) -> NDArray[Any]:
        """The logical tensor as it was before the run."""
        assert self.original is not None
        return self.placements[role].view(self.original)


@dataclass(frozen=True, slots=True)
class BoundCase:
    """One case of one variant, ready to run."""

    card: Card
    case: Case
    variant: Variant
    symbols: Mapping[str, int | float]  # every symbol's value that could be evaluated, for reports
    parameters: GivenParameters  # of the operation, evaluated
    arguments: tuple[BoundArgument, ...]
    launch: Launch
    seed: int
    distribution: str  # of the inputs
    tolerance: Tolerance | None  # in place of the rounding bound, or None

    def inputs(self) -> dict[str, NDArray[Any]]:
        """Logical input tensors by role, as they were before the run."""
        return {
            role: argument.original_view(role)
            for argument in self.arguments
            for role in argument.placements
            if argument.spec.direction in ("in", "inout")
        }

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Logical output tensors by role, as the kernel left them."""
        return {
            role: argument.view(role)
            for argument in self.arguments
            for role in argument.placements
            if argument.spec.direction in ("out", "inout")
        }

    def elements(self) -> dict[str, ElementType]:
        """Element type by role."""
        return {role: argument.spec.element for argument in self.arguments for role in argument.placements}

    def argument_of(self, role: str) -> BoundArgument:
        """The argument that holds a role."""
        return next(argument for argument in self.arguments if role in argument.placements)


def bind(
    card: Card, case: Case, variant: Variant, *, seed: int | None = None, inputs: str = "", empty: bool = False
) -> BoundCase:
    """Evaluate a case: allocate and fill its arrays, and its launch.

    Args:
        empty: whether arrays are left as poison, for one who fills them.
        seed: of the inputs, in place of the case's and the card's.
        inputs: distribution, in place of the case's and the card's.

    Raises:
        ConfigurationError: an expression fails, a shape does not fit, or the arrays need more than `MAX_CASE_BYTES`.
    """
    card = card.as_variant(variant)
    scope = case_scope(card, case, variant)
    seed = seed if seed is not None else case.seed if case.seed is not None else card.seed
    distribution = inputs or case.inputs or card.inputs
    placed = _place_all(card, scope)
    parameters = evaluate_parameters(card.computes, scope)
    check_shapes(card, {role: p.shape for views, _ in placed for role, p in views.items()}, parameters)
    try:
        arguments = _fill(card, scope, placed, distribution, seed, empty)
    except (ArithmeticError, ValueError) as error:
        nothing = [a.name for a, (views, _) in zip(card.arguments, placed, strict=True) if _has_none(views)]
        if not nothing:
            raise
        raise case.error(
            f"no inputs of {card.computes.operation} can be made where '{nothing[0]}' has no element: {error}",
            "give the case's symbols other values",
        ) from error
    launch = _launch(variant.launch or card.launch, scope, arguments)
    launch = replace(launch, tables={one.index: _pointers(card, one) for one in arguments if one.spec.pointers})
    drawn = [a for a in card.arguments if a.direction in ("in", "inout") and a.value is None]
    return BoundCase(
        card,
        case,
        variant,
        _symbol_values(scope),
        parameters,
        arguments,
        launch,
        seed,
        distribution or (default_distribution(drawn[0].element) if drawn else "none"),
        case.tolerance or card.tolerance,
    )


def elements_of(card: Card, case: Case, variant: Variant) -> int:
    """How many elements a case's arrays have, none of them made.

    Raises:
        ConfigurationError: as `bind`.
    """
    return sum(count for _, count in _place_all(card.as_variant(variant), case_scope(card, case, variant)))


def _symbol_values(scope: SymbolScope) -> dict[str, int | float]:
    values: dict[str, int | float] = {}
    for name in scope.names():
        try:
            value = scope.lookup(name)
        except (KeyError, ValueError):
            continue
        values[name] = value if isinstance(value, int) else float(value)
    return values


def _place_all(card: Card, scope: SymbolScope) -> list[tuple[dict[str, Placement], int]]:
    """Placements and storage size of each argument, in elements; (empty, 0) for a scalar."""
    placed: list[tuple[dict[str, Placement], int]] = []
    total = 0
    for argument in card.arguments:
        if argument.value is not None:
            placed.append(({}, 0))
            continue
        views = {view.role: place_view(card, argument, view, scope) for view in argument.views}
        count = max((placement.end for placement in views.values()), default=1)
        if argument.size is not None:
            what = f"the size of '{argument.name}'"
            size = scope.integer(argument.size, place=argument.place, what=what, minimum=1)
            if size < count and views:
                raise argument.error(
                    f"{what} is {size} elements, but its shape and strides reach element {count - 1}",
                    "make the array larger, or mend shape and strides",
                )
            count = size
        elif argument.views and argument.views[0].pad:
            count = max(count, *(_padded_end(views[view.role]) for view in argument.views))
        total += count * argument.element.bytes
        if total > MAX_CASE_BYTES:
            raise argument.error(
                f"the arrays of this case need more than {MAX_CASE_BYTES >> 20} MiB "
                f"('{argument.name}' alone {count * argument.element.bytes / 2**20:.4g} MiB)",
                "use a smaller shape; a wrong kernel is wrong on small shapes too",
            )
        placed.append((views, count))
    return placed


def _has_none(views: Mapping[str, Placement]) -> bool:
    return any(0 in placement.shape for placement in views.values())


def _padded_end(placement: Placement) -> int:
    # Padding after the last row belongs to the storage too, as in a rows × pitch allocation.
    outer = max(zip(placement.strides, placement.shape, strict=True))
    return placement.offset + outer[0] * outer[1]


def _fill(
    card: Card,
    scope: SymbolScope,
    placed: list[tuple[dict[str, Placement], int]],
    distribution: str,
    seed: int,
    empty: bool,
) -> tuple[BoundArgument, ...]:
    drawn = (
        []
        if empty
        else [
            (argument, role, placement)
            for argument, (views, _) in zip(card.arguments, placed, strict=True)
            for role, placement in views.items()
            if argument.direction in ("in", "inout") or argument.initial == "inputs"
        ]
    )
    operation = OPERATIONS[card.computes.operation]
    values = draw(
        distribution,
        {role: (placement.shape, argument.element) for argument, role, placement in drawn},
        seed,
        {role: argument.inputs for argument, role, _ in drawn},
        operation.hard_inputs,
    )
    shapes = {role: placement.shape for views, _ in placed for role, placement in views.items()}
    for argument, role, placement in drawn:
        kind = operation.roles[role].drawn if role in operation.roles else None
        if argument.values is not None:
            values[role] = given_values(argument, placement.shape, scope)
        elif kind is not None and not argument.inputs:
            values[role] = draw_meaningful(kind, role, (placement.shape, argument.element), kind.extent(shapes), seed)
    bound = []
    for index, (argument, (views, count)) in enumerate(zip(card.arguments, placed, strict=True)):
        if argument.value is not None:
            bound.append(BoundArgument(argument, index, None, None, scalar(argument, scope), {}))
            continue
        storage = poisoned(argument.element, count, index)
        if argument.padding == "zero":
            storage[...] = 0
        if argument.direction in ("out", "workspace") and argument.initial not in ("poison", "inputs"):
            text = "0" if argument.initial == "zero" else argument.initial
            value = scope.real(text, place=argument.place, what=f"the initial value of '{argument.name}'")
            with np.errstate(over="ignore", invalid="ignore"):
                storage[...] = np.asarray(value).astype(storage.dtype)
        for role, placement in views.items():
            if role in values:
                placement.view(storage)[...] = values[role]
            elif argument.padding == "zero" and argument.initial == "poison":
                placement.view(storage)[...] = poisoned(argument.element, 1, index)[0]
        bound.append(BoundArgument(argument, index, storage, storage.copy(), None, views))
    return tuple(bound)


def _launch(shape: LaunchShape, scope: SymbolScope, arguments: tuple[BoundArgument, ...]) -> Launch:
    def dim3(which: str, expressions: tuple[str | int | float, ...], limits: tuple[int, int, int]) -> Dim3:
        values = [1, 1, 1]
        for axis, expression in enumerate(expressions):
            what = f"{which}.{'xyz'[axis]}"
            value = scope.integer(expression, place=shape.place, what=what, minimum=1)
            if value > limits[axis]:
                raise shape.error(
                    f"{what} is {value}; the limit is {limits[axis]}", "mend the launch, or the symbols of the case"
                )
            values[axis] = value
        return values[0], values[1], values[2]

    block = dim3("block", shape.block, _BLOCK_LIMITS)
    if block[0] * block[1] * block[2] > 1024:
        raise shape.error(
            f"the block has {block[0] * block[1] * block[2]} threads; the limit is 1024",
            "make the block smaller: threads = x * y * z",
        )
    shared = scope.integer(shape.shared, place=shape.place, what="shared", minimum=0)
    if shared > 1 << 20:
        raise shape.error(
            f"{shared} bytes of shared memory: no GPU has as much", "mend `shared`, or the symbols of the case"
        )
    values: list[LaunchArgument] = []
    for argument in arguments:
        value = argument.scalar if argument.storage is None else argument.storage
        assert value is not None
        values.append(value)
    displaced = 0
    if DISPLACED in scope.names():
        displaced = scope.integer(DISPLACED, place=shape.place, what=DISPLACED, minimum=0)
    names = tuple(argument.spec.name for argument in arguments)
    fresh = [
        (one.index, range(one.storage.nbytes))
        for one in arguments
        if one.storage is not None and one.spec.direction in ("out", "workspace") and one.spec.initial == "poison"
    ]
    grid = dim3("grid", shape.grid, _GRID_LIMITS)
    views, structs = _views(arguments), _structs(arguments)
    return Launch(grid, block, tuple(values), shared, names, tuple(fresh), views, structs, displaced=displaced)


def _pointers(card: Card, argument: BoundArgument) -> tuple[int, int]:
    """How many pointers into an argument there are, and how many bytes apart: one to each of what axis 0 counts."""
    (role, placement), *_ = argument.placements.items()
    known = OPERATIONS[card.computes.operation].roles.get(role)
    whole = known is None or len(placement.shape) == len(known.axes)  # else its only matrix has no axis of its own
    count, apart = (placement.shape[0], placement.strides[0]) if whole else (1, 0)
    return count, apart * argument.spec.element.bytes


def _structs(arguments: tuple[BoundArgument, ...]) -> tuple[tuple[int, int], ...]:
    """(first, count) of the fields of each struct."""
    runs = [list(run) for struct, run in groupby(arguments, lambda one: one.spec.struct) if struct]
    return tuple((run[0].index, len(run)) for run in runs)


def _views(arguments: tuple[BoundArgument, ...]) -> tuple[ArgumentView, ...]:
    """The logical tensors of a card's arguments; a workspace is the kernel's own and has none."""
    return tuple(
        ArgumentView(
            argument.index,
            argument.spec.name if len(argument.placements) == 1 else role,
            placement.shape,
            placement.strides,
            placement.offset,
            written=argument.spec.direction in ("out", "inout"),
            complete=argument.spec.direction == "out" and argument.spec.initial == "poison",
        )
        for argument in arguments
        if argument.spec.direction != "workspace"
        for role, placement in argument.placements.items()
    )
