"""How a GEMM stores its matrices, where a source does not say: found from the result itself.

BLAS code stores columns, CUTLASS's "TN" kernels store B as N×K, textbooks store rows. All are GEMMs. A result that is
wrong under one reading of the same bytes and right to the last element under another says which one is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.ops.evaluation import judge, reference
from wmmadiag.ops.parts.epilogue import FUNCTIONS, SPREAD
from wmmadiag.subject.attention_conventions import AttentionConvention, fitting_attention, with_attention
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.card import Argument, Card
from wmmadiag.subject.storage import Placement

_LARGEST = 1 << 27  # multiply-adds of a reference; a larger case is not looked at
_LARGE_PART = 0.2  # of the elements; chance gives a thousandth of that
_NEAR = 0.03  # of the largest element, wider than rounding to 8 bits


@dataclass(frozen=True, slots=True)
class Convention:
    """What is stored how: `transpose_a`: A as K×M, `transpose_b`: B as N×K, `column_major`: C and D by columns.

    `activation`: another than the card's; None for its own.
    """

    transpose_a: bool
    transpose_b: bool
    column_major: bool
    activation: str | None = None

    @property
    def assumable(self) -> bool:
        """Whether kernels are written so on purpose."""
        return True

    @property
    def stored(self) -> bool:
        """Whether it is about how matrices are stored: with another activation the card's own storage is right."""
        return self.activation is None

    def meaning(self) -> str:
        """In words: "B stored as NxK"."""
        if self.activation is not None:
            return "no activation" if self.activation == "none" else f"the activation {self.activation}"
        parts = ["A stored as KxM"] if self.transpose_a else []
        parts += ["B stored as NxK"] if self.transpose_b else []
        parts += ["the result stored by columns"] if self.column_major else []
        return " and ".join(parts) or "every matrix stored by rows"

    def settings(self) -> str:
        """As a card says it, relative to the defaults."""
        if self.activation is not None:
            return f'activation = "{self.activation}"'
        parts = ["transpose_a = true"] if self.transpose_a else []
        parts += ["transpose_b = true"] if self.transpose_b else []
        parts += ['layout = "NM" ("BNM" in batches) for the result'] if self.column_major else []
        return " and ".join(parts) or "no transpose_a, transpose_b or layout"


def conventions() -> Iterator[Convention]:
    """All of them, the plainest first."""
    return (Convention(a, b, c) for a, b, c in sorted(product((False, True), repeat=3), key=sum))


def fitting_convention(bound: BoundCase) -> tuple[Convention | AttentionConvention, float] | None:
    """The one other convention under which a finished, wrong GEMM or attention is right, and how much of it is.

    A part is enough if it is a large one and no other convention, the stated one included, has nearly as much: a
    kernel that is wrong in places still shows what it means. None if no convention stands out. Only packed tensors are
    looked at: strides that a card gives are meant.
    """
    if bound.card.computes.operation == "attention":
        return fitting_attention(bound)
    if bound.card.computes.operation != "gemm":
        return None
    placements = {role: one for argument in bound.arguments for role, one in argument.placements.items()}
    output = "d" if "d" in placements else "c"
    if not {"a", "b"} <= set(placements) or not all(map(_packed, placements.values())):
        return None
    inputs, result = bound.inputs(), bound.outputs().get(output)
    if result is None or result.ndim < 2:
        return None
    rows, columns = result.shape[-2:]
    depth = inputs["a"].shape[-2 if bound.parameters["transpose_a"] else -1]
    if result.size * depth > _LARGEST:
        return None
    stated = bool(bound.parameters["transpose_a"]), bool(bound.parameters["transpose_b"]), False
    ranked = sorted(
        ((_fitting(bound, one, inputs, output, result, (rows, columns, depth)), one) for one in conventions()),
        key=lambda pair: -pair[0],
    )
    (best, convention), (second, _) = ranked[:2]
    stands_out = best >= _LARGE_PART and second <= best / 4
    if stands_out and convention != Convention(*stated):
        return convention, best
    return _other_activation(bound, Convention(*stated), inputs, output, result, (rows, columns, depth))


def _other_activation(
    bound: BoundCase,
    stated: Convention,
    inputs: Mapping[str, NDArray[Any]],
    output: str,
    result: NDArray[Any],
    extents: tuple[int, int, int],
) -> tuple[Convention, float] | None:
    """The plainest activation under which a wrong result is right to the last element.

    A part says nothing here: all of them leave large sums nearly as they are.
    """
    parameters = {**bound.parameters, "activation": "none"}
    plain = reference("gemm", parameters, inputs)[output]
    for name, function in FUNCTIONS.items():
        expected = function.apply(plain)
        with np.errstate(invalid="ignore"):
            near = np.abs(result.astype(np.float64) - expected) <= _NEAR * np.abs(expected).max()
        if name != bound.parameters["activation"] and near.all():
            convention = replace(stated, activation=name)
            if _fitting(bound, convention, inputs, output, result, extents) == 1.0:
                return convention, 1.0
    return None


def _packed(placement: Placement) -> bool:
    expected = 1
    for extent, stride in zip(reversed(placement.shape), reversed(placement.strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _fitting(
    bound: BoundCase,
    convention: Convention,
    inputs: Mapping[str, NDArray[Any]],
    output: str,
    result: NDArray[Any],
    extents: tuple[int, int, int],
) -> float:
    """Which part of the elements is right under a convention."""
    rows, columns, depth = extents
    lead = result.shape[:-2]

    def read(array: NDArray[Any], shape: tuple[int, int], turned: bool) -> NDArray[Any]:
        """The same bytes as a matrix of that shape, or of its transpose, transposed back."""
        flat = np.ascontiguousarray(array).reshape(*lead, *(shape[::-1] if turned else shape))
        return np.swapaxes(flat, -1, -2) if turned else flat

    try:
        read_as = {
            "a": read(inputs["a"], (rows, depth), convention.transpose_a),
            "b": read(inputs["b"], (depth, columns), convention.transpose_b),
        }
        if "c" in inputs:
            read_as["c"] = read(inputs["c"], (rows, columns), convention.column_major)
    except ValueError:
        return 0.0  # a broadcast operand: other extents than the result's
    read_as |= {role: inputs[role] for role in SPREAD if role in inputs}
    parameters = {**bound.parameters, "transpose_a": False, "transpose_b": False}
    if convention.activation is not None:
        parameters["activation"] = convention.activation
    elements = bound.elements()
    expected = {output: reference("gemm", parameters, read_as)[output]}
    allowed = judge("gemm", parameters, read_as, expected, elements)[output].bound
    observed = read(result, (rows, columns), convention.column_major).astype(np.float64)
    with np.errstate(invalid="ignore"):
        right = np.abs(observed - expected[output]) <= allowed
    telling = (observed != 0) | ~right  # what an activation makes zero is right under many a convention
    return float(right[telling].mean()) if telling.any() else 1.0


def with_convention(card: Card, convention: Convention | AttentionConvention) -> Card:
    """A card of a kernel that means this."""
    if isinstance(convention, AttentionConvention):
        return with_attention(card, convention)
    parameters = {
        **card.computes.parameters,
        "transpose_a": convention.transpose_a,
        "transpose_b": convention.transpose_b,
    }
    if convention.activation is not None:
        parameters["activation"] = convention.activation
    card = replace(card, computes=replace(card.computes, parameters=parameters), open_conventions=False)
    if not convention.column_major:
        return card
    layout = "BNM" if all("batch" in case.symbols for case in card.cases) else "NM"

    def by_columns(argument: Argument) -> Argument:
        views = (replace(view, layout=layout) if view.role in ("c", "d") else view for view in argument.views)
        return replace(argument, views=tuple(views))

    return replace(card, arguments=tuple(map(by_columns, card.arguments)))
