"""Arrays carved out of one buffer by hand that run into each other.

    half* sV = smem;
    float* sO = (float*)(sV + KEYS * D);        // but rows of sV are D + 8 apart

What lies where is the source's own arithmetic, so no access leaves the buffer, and no barrier keeps the two apart: one
array's elements are overwritten by the other's before they are read. That, and nothing less, is what is looked for in
a run: a byte that was written through one pointer, then through another one that starts elsewhere, and then read
through the first. Memory that is used again on purpose is written anew before it is read.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.edits.terms import base_of
from wmmadiag.diagnose.source.model import Function, SourceModel, Variable
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.extents import Extent, Part
from wmmadiag.errors import WmmadiagError
from wmmadiag.place import Place
from wmmadiag.provenance.watch import STORES
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.check import own_place

_SHARED = 2
_BLOCKS = 2
"""Blocks that are watched: all of them carve alike."""
_MOST = 60_000
_LANES = np.arange(32)
_DEPTH = 6
_NOBODY = -1
_ADDRESS = "__cvta_generic_to_shared"  # makes a number of a pointer, for inline assembly


class _EnoughError(WmmadiagError):
    """What was to be seen was seen."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two arrays of one buffer that share bytes which both need.

    Attributes:
        buffer: its name.
        first, second: names of the pointers, the one that starts nearer the buffer's start first.
        starts: where the two start, bytes from the buffer's start.
        reach: how many bytes behind its start accesses through `first` end.
        item: bytes of an element of `first`.
        declared: the line that declares `second`.
        place: the line that reads what is no longer there; `writer`: the one that overwrote it.
    """

    buffer: str
    first: str
    second: str
    starts: tuple[int, int]
    reach: int
    item: int
    declared: Place
    place: Place
    writer: Place

    @property
    def room(self) -> int:
        """Bytes from the start of the one to the start of the other."""
        return self.starts[1] - self.starts[0]


@dataclass
class _Watch:
    """Who wrote each byte of the shared memory last, block by block."""

    owners: dict[int, tuple[int, ...]]
    starts: NDArray[np.int64]
    size: int
    count: int = 0
    block: int = -1
    last: NDArray[np.int64] = field(init=False)
    writer: NDArray[np.int64] = field(init=False)
    wrote: NDArray[np.bool_] = field(init=False)
    reach: NDArray[np.int64] = field(init=False)
    seen: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reach = np.zeros(len(self.starts), np.int64)
        self._anew()

    def _anew(self) -> None:
        self.last = np.full(self.size, _NOBODY, np.int64)
        self.writer = np.full(self.size, _NOBODY, np.int64)
        self.wrote = np.zeros((len(self.starts), self.size), np.bool_)

    def on_memory(self, where: Any, space: int, kind: int, active: int, size: int, addresses: bytes) -> None:
        """As `wmmadiag.emulator.observer.Observer`."""
        self.count += 1
        if where[0] >= _BLOCKS or self.count > _MOST:
            raise _EnoughError("the rest of the launch is as what was seen")
        if space != _SHARED:
            return
        if where[0] != self.block:
            self.block = where[0]
            self._anew()
        lanes = np.frombuffer(addresses, "<u8").astype(np.int64)[active >> _LANES & 1 == 1]
        at = (lanes[:, None] + np.arange(max(size, 1))).ravel()
        at = at[(at >= 0) & (at < self.size)]
        if not at.size:
            return
        owner = self._owner(where[2], int(at.min()))
        if owner != _NOBODY:
            self.reach[owner] = max(self.reach[owner], int(at.max()) + 1 - self.starts[owner])
        if kind in STORES:
            self.last[at], self.writer[at] = owner, where[2]
            if owner != _NOBODY:
                self.wrote[owner, at] = True
        elif owner != _NOBODY:
            gone = at[(self.last[at] != owner) & (self.last[at] != _NOBODY) & self.wrote[owner, at]]
            for byte in gone[:1]:
                self.seen.setdefault((owner, int(self.last[byte])), (where[2], int(self.writer[byte])))

    def _owner(self, pc: int, address: int) -> int:
        """Of the pointers on an instruction's line the one that starts nearest before what it touches."""
        known = [one for one in self.owners.get(pc, ()) if self.starts[one] <= address]
        return max(known, key=lambda one: int(self.starts[one]), default=_NOBODY)


def overlaps(case: BoundCase, kernel: EmulatedKernel, models: Sequence[tuple[str, SourceModel]]) -> Iterator[Overlap]:
    """Arrays of one buffer that overwrite each other in a run.

    Args:
        case: freshly bound; its arrays are changed as by any launch.
        models: (file, what can be read in it).

    Raises:
        KernelFault, BudgetError: as for a launch.
    """
    buffers = [one for one in kernel.named_memory(case.launch) if one.space == "shared" and len(one.parts) > 1]
    if len(buffers) != 1:
        return
    buffer = buffers[0]
    parts = buffer.parts
    owners = _owners(kernel, models, buffer)
    if len({one for several in owners.values() for one in several}) < 2:
        return
    starts = np.array([buffer.start + part.offset for part in parts], np.int64)
    watch = _Watch(owners, starts, buffer.start + buffer.size)
    options = replace(kernel.options, threads=1, checks=(), check_table=(), observer=watch)
    with suppress(_EnoughError):
        EmulatedKernel(kernel.kernel, options).launch(case.launch)
    told: set[tuple[int, int]] = set()
    for (reader, writer), (read_at, written_at) in watch.seen.items():
        low, high = sorted((reader, writer), key=lambda one: int(starts[one]))
        if (low, high) in told:
            continue
        told.add((low, high))
        declared = _declared(models, parts[high])
        if declared is not None and watch.reach[low] > starts[high] - starts[low]:
            yield Overlap(
                buffer.label, parts[low].name, parts[high].name, (parts[low].offset, parts[high].offset),
                int(watch.reach[low]), parts[low].item, declared,
                own_place(kernel.kernel.place(read_at)), own_place(kernel.kernel.place(written_at)),
            )  # fmt: skip


def _declared(models: Sequence[tuple[str, SourceModel]], part: Part) -> Place | None:
    for file, model in models:
        for variable in model.variables:
            if variable.name == part.name and variable.pointer and variable.kind == "local":
                return Place(file, model.line_of(variable.name_at))
    return None


def _owners(
    kernel: EmulatedKernel, models: Sequence[tuple[str, SourceModel]], buffer: Extent
) -> dict[int, tuple[int, ...]]:
    """Instruction → the pointers of the buffer that its line may use, by number of the part."""
    by_file = dict(models)
    names = {part.name: number for number, part in enumerate(buffer.parts)}
    found: dict[int, tuple[int, ...]] = {}
    known: dict[tuple[tuple[str, int], ...], tuple[int, ...]] = {}
    for pc, node in enumerate(kernel.kernel.nodes):
        frames = tuple((frame.file, frame.line) for frame in node.place.frames())
        if frames not in known:
            used: dict[int, None] = {}
            parameters: frozenset[str] | None = None  # of the callee, where a call is looked at
            for file, line in frames:
                model = by_file.get(file)
                if model is None:
                    continue
                pointers = list(_pointers(model, line, names, parameters))
                used |= {names[one.name]: None for one in pointers if one.name in names}
                parameters = frozenset(one.name for one in pointers if one.kind == "parameter")
                if not parameters:
                    break
            known[frames] = tuple(used)
        if known[frames]:
            found[pc] = known[frames]
    return found


def _pointers(
    model: SourceModel, line: int, names: Container[str], callee: frozenset[str] | None
) -> Iterator[Variable]:
    """The carved pointers (of `names`) and the parameters that code on a line uses.

    `callee`: names of parameters of a function that the line calls: only arguments for these count.
    """
    spans = [(s.first, s.last) for s in model.statements if s.simple and s.line <= line <= s.last_line]
    if callee is not None:
        calls = [call for call in model.calls if any(first <= call.first < last for first, last in spans)]
        spans = [
            (argument.first, argument.last)
            for call in calls
            for function in _named(model, call.name)
            for parameter, argument in zip(function.parameters, call.arguments, strict=False)
            if parameter.name in callee
        ]
    for first, last in spans:
        for token in model.tokens[first:last]:
            variable = model.variable(token.text, token.offset) if token.kind == "id" else None
            pointer = _traced(model, variable, names)
            if pointer is not None:
                yield pointer


def _named(model: SourceModel, name: str) -> Iterator[Function]:
    return (function for function in model.functions if function.name == name)


def _traced(model: SourceModel, variable: Variable | None, names: Container[str]) -> Variable | None:
    """The carved pointer, or the parameter, that a pointer was made of through the initialisers of local ones."""
    for _ in range(_DEPTH):
        made_of = variable.initial if variable is not None else None
        if variable is None or not (variable.pointer or (made_of is not None and _ADDRESS in made_of.text)):
            return None
        if variable.name in names or variable.kind == "parameter":
            return variable
        inner = base_of(model, made_of) if made_of is not None else None
        variable = inner if inner is not variable else None
    return None
