"""What a card's operation must be made of: which products, of which matrices, over which axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wmmadiag.ops.parts.score_terms import ScoreTerms, score_terms
from wmmadiag.provenance.raw import COLUMN, ROW
from wmmadiag.provenance.tags import ArgumentMatrix
from wmmadiag.subject.binding import BoundCase


@dataclass(frozen=True, slots=True)
class ExpectedProduct:
    """A matrix product: axis `left_axis` of `left` is contracted with `right_axis` of `right`.

    `left` and `right` are numbers of arguments, or another expected product. `extent`: of the contracted axis.
    """

    left: int | ExpectedProduct
    left_axis: int
    right: int
    right_axis: int
    extent: int
    words: str


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """One matrix of an output: all its elements come from one product."""

    role: str
    lead: tuple[int, ...]  # leading indices in the output tensor
    product: ExpectedProduct
    needed: tuple[int, ...]  # per row, how much of the contracted axis every element must have added up: [0, needed[i])
    # (rows, indices) which of that it must have, where masks leave holes; None where all
    kept: NDArray[np.bool_] | None = field(default=None, compare=False, repr=False)


def expected_outputs(case: BoundCase, matrices: Sequence[ArgumentMatrix]) -> tuple[ExpectedOutput, ...]:
    """What each output matrix of the case must be; empty for operations without matrix products."""
    make = _MAKERS.get(case.card.computes.operation)
    return () if make is None else tuple(make(case, _Lookup(matrices)))


def has_products(operation: str) -> bool:
    """Whether it is known which matrix products an operation is made of."""
    return operation in _MAKERS


class _Lookup:
    def __init__(self, matrices: Sequence[ArgumentMatrix]) -> None:
        self._by_role: dict[str, list[ArgumentMatrix]] = {}
        for matrix in matrices:
            self._by_role.setdefault(matrix.role, []).append(matrix)

    def all(self, role: str) -> list[ArgumentMatrix]:
        return self._by_role.get(role, [])

    def find(self, role: str, lead: tuple[int, ...]) -> ArgumentMatrix:
        """The matrix for an output's leading indices; broadcast over axes that it lacks or has once."""
        found = self.all(role)
        extents = np.array([m.lead for m in found]).max(axis=0, initial=0) + 1 if found[0].lead else np.array([], int)
        mine = lead[len(lead) - len(found[0].lead) :]
        wanted = tuple(0 if n == 1 else i for i, n in zip(mine, extents, strict=True))
        return next(m for m in found if m.lead == wanted)

    def of_head(self, role: str, lead: tuple[int, ...], heads: int) -> ArgumentMatrix:
        """The matrix of a query head: heads may share keys and values."""
        found = self.all(role)
        if not lead:
            return found[0]
        own = max(m.lead[-1] for m in found) + 1
        shared = (*lead[:-1], lead[-1] // max(1, heads // own))
        return next(m for m in found if m.lead == shared)


def _output_shape(case: BoundCase, role: str) -> tuple[int, ...]:
    return case.argument_of(role).placements[role].shape


def _gemm(case: BoundCase, find: _Lookup) -> Iterator[ExpectedOutput]:
    roles = [role for a in case.arguments if a.spec.direction != "in" for role in a.placements]
    role = "d" if "d" in roles else "c"
    shape = _output_shape(case, role)
    axes = (ROW if case.parameters["transpose_a"] else COLUMN, COLUMN if case.parameters["transpose_b"] else ROW)
    for lead in np.ndindex(*shape[:-2]):
        a, b = find.find("a", lead), find.find("b", lead)
        extent = a.rows if axes[0] == ROW else a.columns
        words = f"{a.name}{'ᵀ' if axes[0] == ROW else ''}·{b.name}{'ᵀ' if axes[1] == COLUMN else ''}"
        product = ExpectedProduct(a.number, axes[0], b.number, axes[1], extent, words)
        yield ExpectedOutput(role, tuple(map(int, lead)), product, (extent,) * shape[-2])


def _scores(find: _Lookup, lead: tuple[int, ...], heads: int) -> ExpectedProduct:
    q = find.find("q", lead)
    k = find.of_head("k", lead, heads)
    return ExpectedProduct(q.number, COLUMN, k.number, COLUMN, q.columns, f"{q.name}·{k.name}ᵀ")


def _qkt(case: BoundCase, find: _Lookup) -> Iterator[ExpectedOutput]:
    shape = _output_shape(case, "scores")
    for lead in np.ndindex(*shape[:-2]):
        product = _scores(find, lead, shape[-3] if len(shape) > 2 else 1)
        yield ExpectedOutput("scores", tuple(map(int, lead)), product, (product.extent,) * shape[-2])


def _pv(case: BoundCase, find: _Lookup) -> Iterator[ExpectedOutput]:
    shape = _output_shape(case, "o")
    for lead in np.ndindex(*shape[:-2]):
        p, v = find.find("p", lead), find.of_head("v", lead, shape[-3] if len(shape) > 2 else 1)
        product = ExpectedProduct(p.number, COLUMN, v.number, ROW, p.columns, f"{p.name}·{v.name}")
        yield ExpectedOutput("o", tuple(map(int, lead)), product, (p.columns,) * shape[-2])


def _attention(case: BoundCase, find: _Lookup) -> Iterator[ExpectedOutput]:
    shape = _output_shape(case, "o")
    inputs = case.inputs()
    terms = score_terms(case.parameters, inputs, shape[-2], inputs["k"].shape[-2])
    for lead in np.ndindex(*shape[:-2]):
        heads = shape[-3] if len(shape) > 2 else 1
        scores, v = _scores(find, lead, heads), find.of_head("v", lead, heads)
        product = ExpectedProduct(scores, COLUMN, v.number, ROW, v.rows, f"softmax({scores.words})·{v.name}")
        batch, head = (0, 0, *map(int, lead))[-2:]
        yield ExpectedOutput("o", tuple(map(int, lead)), product, *_reach(terms, (batch, head), shape[-2]))


def _reach(terms: ScoreTerms, head: tuple[int, int], rows: int) -> tuple[tuple[int, ...], NDArray[np.bool_] | None]:
    """(end of the keys that masks leave each row, 0 for a row without any; which of them, where they leave holes)."""
    if not terms.masks:
        return (terms.keys,) * rows, None
    allowed = terms.allowed(head, np.arange(rows))
    ends = np.where(allowed.any(axis=1), terms.keys - np.argmax(allowed[:, ::-1], axis=1), 0)
    return tuple(ends.tolist()), allowed if terms.masks_otherwise else None


_MAKERS = {"gemm": _gemm, "qkt": _qkt, "pv": _pv, "attention": _attention}
