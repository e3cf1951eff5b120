"""What a card's operation must be made of: its `products` with the numbers of a case's matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.model import COLUMN, ROW, MatrixProduct
from wmmadiag.ops.stages.model import ExpectedOutput, ExpectedProduct
from wmmadiag.provenance.tags import ArgumentMatrix
from wmmadiag.subject.binding import BoundCase


def has_products(operation: str) -> bool:
    """Whether it is known which matrix products an operation is made of."""
    return OPERATIONS[operation].products is not None


def expected_outputs(case: BoundCase, matrices: Sequence[ArgumentMatrix]) -> tuple[ExpectedOutput, ...]:
    """What each output matrix of the case must be; empty for operations whose products are not known."""
    operation = OPERATIONS[case.card.computes.operation]
    if operation.products is None:
        return ()
    by_role: dict[str, list[ArgumentMatrix]] = {}
    for matrix in matrices:
        by_role.setdefault(matrix.role, []).append(matrix)
    written = {
        role: placement.shape
        for argument in case.arguments
        if argument.spec.direction != "in"
        for role, placement in argument.placements.items()
    }
    found = []
    for role, product in operation.products(case.parameters).items():
        place = role if role in written else operation.roles[role].updates
        if place not in written:
            continue
        *outer, rows, _ = written[place]
        kept = None if operation.kept is None else operation.kept(case.parameters, case.inputs(), rows)
        for lead in np.ndindex(*outer):
            made = _made(product, by_role, lead, tuple(outer))
            every = np.ones((rows, made.extent), np.bool_) if kept is None else kept(lead)
            ends = (every * (np.arange(made.extent) + 1)).max(axis=1, initial=0)
            holes = bool((every != (np.arange(made.extent) < ends[:, None])).any())
            found.append(ExpectedOutput(place, lead, made, tuple(ends.tolist()), every if holes else None))
    return tuple(found)


def _made(
    product: MatrixProduct,
    by_role: Mapping[str, Sequence[ArgumentMatrix]],
    lead: tuple[int, ...],
    outer: tuple[int, ...],
) -> ExpectedProduct:
    """A product for an output's leading indices; `outer`: their extents."""
    right = _matrix(by_role[product.right], lead, outer)
    extent = right.rows if product.right_axis == ROW else right.columns
    left: int | ExpectedProduct
    if isinstance(product.left, MatrixProduct):
        left = _made(product.left, by_role, lead, outer)
        words = product.left.made_into.format(left.words)
    else:
        matrix = _matrix(by_role[product.left], lead, outer)
        left, words = matrix.number, matrix.name
    words += f"{'ᵀ' if product.left_axis == ROW else ''}·{right.name}{'ᵀ' if product.right_axis == COLUMN else ''}"
    return ExpectedProduct(left, product.left_axis, right.number, product.right_axis, extent, words)


def _matrix(found: Sequence[ArgumentMatrix], lead: tuple[int, ...], outer: tuple[int, ...]) -> ArgumentMatrix:
    """The one of a role that an output's leading indices meet: broadcast over axes that the role lacks or has once.

    Where it has an axis with fewer, as keys have heads, several of the output's in a row share one.
    """
    own = len(found[0].lead)
    extents = [max(matrix.lead[axis] for matrix in found) + 1 for axis in range(own)]
    wanted = tuple(
        at * n // of for at, n, of in zip(lead[len(lead) - own :], extents, outer[len(outer) - own :], strict=True)
    )
    return next(matrix for matrix in found if matrix.lead == wanted)
