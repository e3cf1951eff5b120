"""A fragment at one moment: a matrix, who holds its elements, what they are, and what they should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.debugger.machine import StoppableLaunch
from wmmadiag.debugger.registers import RegisterLayout
from wmmadiag.emulator.decoded import Value
from wmmadiag.ops.model import ROW
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.stages.model import (
    FINAL,
    INNER,
    ExpectedOutput,
    ExpectedProduct,
    Observed,
    SampleRole,
    StageCase,
    Stages,
)
from wmmadiag.place import Place
from wmmadiag.provenance.expected import expected_outputs
from wmmadiag.provenance.naming import Names
from wmmadiag.provenance.observed import belonging, unit_roundoff
from wmmadiag.provenance.outputs import Products
from wmmadiag.provenance.raw import DerivedProduct, SampleSpace, TaggedRun, read_raw
from wmmadiag.provenance.stages import narrow_of, stages_of
from wmmadiag.provenance.tags import ArgumentMatrix, Parts, decode, granule_shift, number_matrices, parts, tag_arguments
from wmmadiag.provenance.trace import engine_table
from wmmadiag.subject.binding import BoundCase

# What the elements of a fragment must be by the oracle, from the tags that say what they are.


_SAME = 2.0**-6
"""Relative spread up to which values are a multiple of what was computed: well above rounding, far below a mistake."""


@dataclass(frozen=True)
class HeldElements:
    """What a fragment holds."""

    values: Doubles  # (rows, columns), as they are; tags: likewise
    tags: NDArray[np.uint64]
    operand: bool  # whether it is matrix_a or matrix_b
    bits: int  # of an element
    place: Place  # of the operation


@dataclass(frozen=True)
class Oracle:
    """The oracle's values for fragments of one traced run."""

    case: BoundCase  # freshly bound; matrices: its numbered arguments
    matrices: Sequence[ArgumentMatrix]
    raw: TaggedRun  # what the engine recorded up to the moment
    names: Names  # of its matrices

    def values(self, held: HeldElements) -> tuple[Doubles, str]:
        """Expected values, NaN where the oracle does not say, and words for what they are."""
        found = parts(held.tags)
        out = np.full(held.tags.shape, np.nan)
        plain = np.zeros(held.tags.shape, bool)  # of arguments and their products: may be scaled by one factor
        plain_words: list[str] = []
        words: list[str] = []
        for number in map(int, np.unique(found.matrix[found.whole])):
            here = (found.matrix == number) & found.whole
            made = self.raw.derived.get(number)
            if made is None:
                out[here] = self._argument(number)[found.row[here], found.column[here]]
                plain |= here
                plain_words.append(self.names.matrix(number))
                continue
            judged = self._judged(made, here, found, held)
            if judged is not None:
                out[here] = judged[0]
                words.append(judged[1])
            elif made.left in self._numbered and made.right in self._numbered:
                out[here] = self._product(made, found.row[here], found.column[here])
                plain |= here
                foreign = self._expected and not self._products.expected(made.base)
                plain_words.append(
                    f"{self.names.matrix(number)}, {_covered(made)}"
                    + (", a product that the operation does not have" if foreign else "")
                )
            elif self._expected:
                words.append(f"{self.names.matrix(number)}: a product that the operation does not have")
            else:
                words.append(f"{self.names.matrix(number)}: a product of intermediate values, which have no oracle")
        factor = _factor(held.values[plain], out[plain])
        if factor is not None:
            out[plain] *= factor
            plain_words.append(f"times {factor:.6g}")
        words = [", ".join(dict.fromkeys(plain_words)), *words] if plain_words else words
        return out, "; ".join(dict.fromkeys(words)) or "no element of it is followed to an input"

    # What the operation has

    @cached_property
    def _numbered(self) -> Mapping[int, ArgumentMatrix]:
        return {matrix.number: matrix for matrix in self.matrices}

    @cached_property
    def _inputs(self) -> Mapping[str, NDArray[Any]]:
        return self.case.inputs()

    @cached_property
    def _expected(self) -> tuple[ExpectedOutput, ...]:
        return expected_outputs(self.case, self.matrices)

    @cached_property
    def _products(self) -> Products:
        return Products(self.raw, self._expected)

    @cached_property
    def _stages(self) -> tuple[Stages, StageCase]:
        return stages_of(self.case, self.matrices)

    # One matrix

    def _argument(self, number: int) -> Doubles:
        matrix = self._numbered[number]
        whole = self._inputs[matrix.role].astype(np.float64)
        return np.asarray(whole[matrix.lead] if whole.ndim >= 2 else whole.reshape(1, -1))

    def _product(self, made: DerivedProduct, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Doubles:
        """Elements of a product of two arguments, as far as it has been added up."""
        left, right = self._argument(made.left), self._argument(made.right)
        left = left.T if made.left_axis == ROW else left
        right = right if made.right_axis == ROW else right.T
        ks = np.concatenate([np.arange(first, end) for first, end in made.coverage] or [np.zeros(0, np.int64)])
        # The engine numbers a product's operands in the order in which it met them.
        if rows.size and (int(rows.max()) >= left.shape[0] or int(columns.max()) >= right.shape[1]):
            rows, columns = columns, rows
        return np.asarray(np.einsum("ik,ki->i", left[np.ix_(rows, ks)], right[np.ix_(ks, columns)]))

    def _judged(
        self, made: DerivedProduct, here: NDArray[np.bool_], found: Parts, held: HeldElements
    ) -> tuple[Doubles, str] | None:
        """Values of the operation's own intermediates: weights, and sums of weights times values."""
        kind, number, swapped = belonging(made.base, self._products, self._expected) if self._expected else (-1, 0, 0)
        if kind < 0:
            return None
        product = self._expected[number].product
        inner = product.left
        if not isinstance(inner, ExpectedProduct):
            return None  # the output is a product of arguments
        if kind == INNER and not (held.operand and made.covers(inner.extent)):
            return None
        row, column = found.row[here], found.column[here]
        flat = np.zeros(row.shape, np.int64)
        stages, given = self._stages
        seen = Observed(
            held.place, SampleRole.OPERAND if held.operand else SampleRole.RESULT, kind, held.values[here],
            flat + number, column if swapped else row, row if swapped else column, flat + made.number, flat, flat,
            unit_roundoff(held.bits // 8, narrow_of(given)), False,
        )  # fmt: skip
        judged = next(stages.judge(self._expected, self.raw.coverage, [seen]))
        of = product.words if kind == FINAL else inner.words
        words = f"{judged.best.words}, of {of}" + (f", {_covered(made)}" if kind == FINAL else "")
        words += "; one factor per row is free"
        return judged.best.fit.expected, words


def _covered(made: DerivedProduct) -> str:
    return ", ".join(f"{first} ≤ k < {end}" for first, end in made.coverage)


def _factor(observed: Doubles, expected: Doubles) -> float | None:
    """A factor other than 1 that all values have (such as a softmax scale), or None."""
    known = np.isfinite(expected) & np.isfinite(observed) & (np.abs(expected) > 0)
    if known.sum() < 4:
        return None
    weight = np.abs(expected[known])
    large = weight >= np.median(weight)  # where rounding is small
    ratios = observed[known][large] / expected[known][large]
    factor = float(np.median(ratios))
    if factor == 0 or not np.isfinite(factor) or abs(factor - 1) < _SAME:
        return None
    return factor if bool(np.all(np.abs(ratios - factor) <= _SAME * abs(factor))) else None


@dataclass(frozen=True, eq=False)
class FragmentView:
    """One operand of a fragment operation in one warp.

    Attributes:
        name: as asked for; text: as the source's call has it.
        letter: "a", "b", "c" or "d".
        type: of an element.
        values: (rows, columns), in the element's type.
        lanes: who holds each element; index: i of `frag.x[i]` there.
        registers: names of the PTX registers, (rows, columns).
        place: of the operation that the view goes by; state: "before" or "after" it.
        block, warp, time: when.
    """

    name: str
    text: str
    letter: str
    type: str
    values: NDArray[Any]
    lanes: NDArray[np.int64]
    index: NDArray[np.int64]
    registers: NDArray[Any]
    place: Place
    state: str
    block: int
    warp: int
    time: int
    _origin: FragmentOrigin | None = field(default=None, repr=False)

    @property
    def provenance(self) -> NDArray[Any]:
        """What each element is, in words: "K[0,1](3, 5)"; "" where that is not followed. (rows, columns)."""
        return self._traced.words

    @property
    def expected(self) -> Doubles:
        """What each element must be by the oracle, NaN where the oracle does not say. (rows, columns).

        Of an input's element its value; of a sum of products, the part of the sum that it has by now, in float64; of
        softmax weights, and of sums of weights times values, that times the factor that most of their row has.
        """
        return self._traced.expected

    @property
    def reading(self) -> str:
        """How `expected` is to be read: "Q[0,1]·K[0,1]ᵀ, k < 16", or why there is none."""
        return self._traced.reading

    @property
    def difference(self) -> Doubles:
        """`values - expected`, NaN where the oracle does not say."""
        with np.errstate(invalid="ignore"):
            found: Doubles = self.values.astype(np.float64) - self.expected
        return found

    @property
    def _traced(self) -> Traced:
        if self._origin is None:
            nothing = np.full(self.values.shape, np.nan)
            return Traced(np.full(self.values.shape, "", object), nothing, "its origin is not followed")
        return self._origin.traced(self)

    def _repr_html_(self) -> str:
        from wmmadiag.debugger.notebook import fragment_html

        return fragment_html(self)

    def __str__(self) -> str:
        from wmmadiag.debugger.text import fragment_text

        return fragment_text(self)


@dataclass(frozen=True, slots=True)
class Traced:
    """Provenance and oracle of a fragment's elements."""

    words: NDArray[Any]
    expected: Doubles
    reading: str


@dataclass(slots=True)
class FragmentOrigin:
    """Finds the provenance of a fragment when it is asked for: the block runs once more up to then, with tags."""

    machine: StoppableLaunch
    bind: Callable[[], BoundCase]
    slots: Mapping[Value, int]
    layout: RegisterLayout
    time: int
    warp: int
    _found: Traced | None = None

    def traced(self, view: FragmentView) -> Traced:
        """Provenance and oracle; the machine is where it was, afterwards."""
        if self._found is None:
            with self.machine.returning():
                self._found = self._trace(view)
        return self._found

    def _trace(self, view: FragmentView) -> Traced:
        shape = view.values.shape
        fresh = self.bind()
        matrices = number_matrices(fresh)
        tagged = tuple(tag_arguments(fresh, matrices))
        shift, space = granule_shift(fresh), SampleSpace(1, 1)
        table = engine_table(fresh, self.machine.kernel, tagged, matrices, space)
        self.machine.seek(self.time)
        if self.machine.finished:  # the last instruction only ends a thread
            self.machine.seek(self.time - 1)
        raw = read_raw(self.machine.watched("provenance", table))
        tags = self._tags(shift)
        if tags is None:
            nothing = np.full(shape, "", object), np.full(shape, np.nan)
            return Traced(*nothing, "elements of less than a byte are not followed")
        names = Names(self.machine.kernel.kernel, {matrix.number: matrix for matrix in matrices}, raw)
        words = np.empty(shape, object)
        for place in np.ndindex(*shape):
            words[place] = _words(names, int(tags[place]))
        held = HeldElements(view.values.astype(np.float64), tags, view.letter in "ab", self.layout.bits, view.place)
        return Traced(words, *Oracle(fresh, matrices, raw, names).values(held))

    def _tags(self, shift: int) -> NDArray[np.uint64] | None:
        where = self.layout
        if where.bits < 8 << shift:
            return None
        step = where.bits >> (3 + shift)
        out = np.zeros(where.shape, np.uint64)
        for number, value in enumerate(where.values):
            if value not in self.slots:
                continue
            tags = self.machine.tags(self.warp, self.slots[value], value.bytes)
            if tags.size:
                here = where.register == number
                out[here] = tags[where.lane[here], where.element[here] * step]
        return out


def _words(names: Names, tag: int) -> str:
    found = decode(tag)
    if found.mixed:
        return "several matrices"
    if found.matrix == 0 and found.bad is None:
        return ""
    return names.element(found)


def register_names(layout: RegisterLayout) -> NDArray[Any]:
    """The names of the PTX registers that hold the elements, (rows, columns)."""
    named: Sequence[str] = [value.name or f"({number})" for number, value in enumerate(layout.values)]
    out = np.empty(layout.shape, object)
    for place in np.ndindex(*layout.shape):
        out[place] = named[int(layout.register[place])]
    return out
