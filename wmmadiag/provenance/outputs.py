"""Each output element against what it must be: the right product, the right element of it, all of it added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmmadiag.ops.stages.model import ExpectedOutput, ExpectedProduct
from wmmadiag.provenance.model import OutputSummary, Reach
from wmmadiag.provenance.raw import TaggedRun
from wmmadiag.provenance.tags import Parts, Tags, parts

ElementMask = NDArray[np.bool_]


class Products:
    """Which derived matrices are which expected products."""

    def __init__(self, raw: TaggedRun, expected: Sequence[ExpectedOutput]) -> None:
        self._raw = raw
        self._expected = [output.product for output in expected]
        self._expected += [e.left for e in self._expected if isinstance(e.left, ExpectedProduct)]

    def matches(self, number: int, wanted: int | ExpectedProduct) -> bool:
        """Whether a matrix is the wanted one; a product that is an operand itself must be complete."""
        return self._product_matches(number, wanted, complete=True)

    def is_product(self, number: int, wanted: ExpectedProduct) -> bool:
        """Whether a matrix is the wanted product, however far its sum has come."""
        return self._product_matches(number, wanted, complete=False)

    def _product_matches(self, number: int, wanted: int | ExpectedProduct, *, complete: bool) -> bool:
        if isinstance(wanted, int):
            return number == wanted
        made = self._raw.derived.get(number)
        if made is None or (complete and not made.covers(wanted.extent)):
            return False
        either = (
            (made.left, made.left_axis, made.right, made.right_axis),
            (made.right, made.right_axis, made.left, made.left_axis),
        )
        return any(
            one_axis == wanted.left_axis and two_axis == wanted.right_axis and two == wanted.right
            and self._product_matches(one, wanted.left, complete=True)
            for one, one_axis, two, two_axis in either
        )  # fmt: skip

    def expected(self, base: int) -> bool:
        """Whether the operation has this product, in some output or on the way to one."""
        return any(self.is_product(base, wanted) for wanted in self._expected)

    def swapped(self, number: int, wanted: ExpectedProduct) -> bool:
        """Whether tags of the matrix have its rows and columns exchanged, compared with the expected product."""
        made = self._raw.derived[number]
        return not (made.right == wanted.right and made.right_axis == wanted.right_axis)


@dataclass(frozen=True, slots=True)
class JudgedOutput:
    """The elements of one output tensor by what is the matter with them; masks in its logical shape."""

    role: str
    tags: Parts
    # explained, unknown: see `OutputSummary`
    explained: ElementMask
    unknown: ElementMask
    by_record: Mapping[int, ElementMask]  # elements that a record's bad value reached
    # incomplete, repeated: sums of the right product, by its base matrix
    incomplete: Mapping[int, ElementMask]
    repeated: Mapping[int, ElementMask]
    misplaced: Mapping[int, ElementMask]  # elements of the right product, but others
    foreign: Mapping[
        int, ElementMask
    ]  # elements of a product or argument that does not belong here, by its base matrix

    def summary(self) -> OutputSummary:
        explained, unknown = int(self.explained.sum()), int(self.unknown.sum())
        size = self.explained.size
        return OutputSummary(self.role, size, explained, unknown, size - explained - unknown)

    def reach(self, where: ElementMask) -> Reach:
        """Where elements of a mask lie."""
        return Reach.of_mask(self.role, where)


def judge_output(
    role: str, tags: Tags, expected: Sequence[ExpectedOutput], raw: TaggedRun, products: Products
) -> JudgedOutput:
    """Compare the tags of one output tensor with what its matrices must be."""
    found = parts(tags)
    shape = tags.shape
    explained = np.zeros(shape, bool)
    groups: dict[str, dict[int, ElementMask]] = {"incomplete": {}, "repeated": {}, "misplaced": {}, "foreign": {}}
    unknown = (found.bad < 0) & ~found.whole

    def add(group: str, base: int, lead: tuple[int, ...], where: ElementMask) -> None:
        if where.any():
            whole = groups[group].setdefault(base, np.zeros(shape, bool))
            whole[lead] |= where

    for output in expected:
        if output.role != role:
            continue
        lead = output.lead
        matrix, whole = found.matrix[lead], found.whole[lead]
        rows, columns = np.indices(matrix.shape)
        needed = np.array(output.needed)[:, None]
        # Rows that need nothing (all keys masked) may hold anything.
        free = np.broadcast_to(needed == 0, matrix.shape) & (found.bad[lead] < 0)
        explained[lead] |= free
        unknown[lead] &= ~free
        for number in np.unique(matrix[whole]):
            here = (matrix == number) & whole & ~free
            made = raw.derived.get(int(number))
            base = made.base if made is not None else int(number)
            if made is None or not products.is_product(int(number), output.product):
                add("foreign", base, lead, here)
                continue
            row, column = found.row[lead], found.column[lead]
            if products.swapped(int(number), output.product):
                row, column = column, row
            right = here & (row == rows) & (column == columns)
            add("misplaced", base, lead, here & ~right)
            short = right & _lacking(output, made.coverage) & (not made.corrected)
            add("incomplete", base, lead, short)
            twice = right & ~short & (made.repeated and not made.corrected)
            add("repeated", base, lead, twice)
            explained[lead] |= right & ~short & ~twice
    by_record = {int(n): found.bad == n for n in np.unique(found.bad[found.bad > 0])}
    return JudgedOutput(role, found, explained, unknown, by_record, **groups)


def _lacking(output: ExpectedOutput, coverage: Sequence[tuple[int, int]]) -> ElementMask:
    """Rows that need more of the contracted axis than was added up, (rows, 1)."""
    if output.kept is None:
        covered = next((end for first, end in coverage if first == 0), 0)
        return np.array(output.needed)[:, None] > covered
    inside = np.zeros(output.kept.shape[1], np.bool_)
    for first, end in coverage:
        inside[first:end] = True
    return np.asarray(np.any(output.kept & ~inside, axis=1, keepdims=True), np.bool_)
