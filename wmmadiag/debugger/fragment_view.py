"""A fragment at one moment: a matrix, who holds its elements, what they are, and what they should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.debugger.machine import StoppableLaunch
from wmmadiag.debugger.oracle_values import Held, Oracle
from wmmadiag.debugger.registers import RegisterLayout
from wmmadiag.emulator.decoded import Value
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.place import Place
from wmmadiag.provenance.naming import Names
from wmmadiag.provenance.raw import read_raw
from wmmadiag.provenance.samples import SampleSpace
from wmmadiag.provenance.tags import decode, granule_shift, number_matrices, tag_arguments
from wmmadiag.provenance.trace import engine_table
from wmmadiag.subject.binding import BoundCase


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
            now = self.machine.time
            try:
                self._found = self._trace(view)
            finally:
                self.machine.seek(now)
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
        held = Held(view.values.astype(np.float64), tags, view.letter in "ab", self.layout.bits, view.place)
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
