"""The elements of global memory that each access of a kernel touches, block by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.decoded import Decoded, Value
from wmmadiag.errors import WmmadiagError
from wmmadiag.place import Place
from wmmadiag.provenance.watch import STORES
from wmmadiag.subject.binding import BoundArgument, BoundCase
from wmmadiag.subject.check import own_place

Ints: TypeAlias = NDArray[np.int64]

_GLOBAL = 1
_ATOMIC = 2
_MOST = 60_000
"""Accesses of warps to memory of any kind: a launch with more is left alone, for watching it takes over a second."""
_LANES = np.arange(32)


class TooManyError(WmmadiagError):
    """The launch has more accesses than are looked at."""


@dataclass(frozen=True, slots=True)
class Site:
    """One access of the source, with all its copies by unrolling.

    Attributes:
        argument: whose memory it touches.
        store: whether it writes.
        place: the user's own line.
        pcs: the instructions.
        block, element: every (block, element of the argument's storage) that it touches, once, by block.
    """

    argument: BoundArgument
    store: bool
    atomic: bool
    place: Place
    pcs: tuple[int, ...]
    block: Ints
    element: Ints


class _Watch:
    def __init__(self) -> None:
        self.events: dict[tuple[int, int], list[tuple[int, int, int, bytes]]] = {}
        self.count = 0

    def on_memory(self, where: Any, space: int, kind: int, active: int, size: int, addresses: bytes) -> None:
        """As `wmmadiag.emulator.observer.Observer`."""
        self.count += 1
        if space == _GLOBAL:
            self.events.setdefault((where[2], kind), []).append((where[0], active, size, addresses))
        if self.count > _MOST:
            raise TooManyError("the launch has more accesses than are looked at")


def sites(case: BoundCase, kernel: EmulatedKernel) -> tuple[Site, ...]:
    """All accesses to the case's tensors, in the order of the program.

    Args:
        case: freshly bound; its arrays are changed as by any launch.

    Raises:
        TooManyError: the launch is too large to be looked at.
        KernelFault, BudgetError: as for a launch.
    """
    watch = _Watch()
    options = replace(kernel.options, threads=1, checks=(), check_table=(), observer=watch)
    EmulatedKernel(kernel.kernel, options).launch(case.launch)
    arrays = [argument for argument in case.arguments if argument.storage is not None]
    extents = list(zip(arrays, kernel.extents(case.launch), strict=False))
    found: dict[tuple[Any, ...], list[tuple[int, bool, Ints, Ints]]] = {}
    for (pc, kind), events in sorted(watch.events.items()):
        block, address = _touched(events, min(a.storage.dtype.itemsize for a in arrays if a.storage is not None))
        frames = tuple((f.file, f.line) for f in kernel.kernel.place(pc).frames())
        for number, (argument, extent) in enumerate(extents):
            assert argument.storage is not None
            inside = (address >= extent.start) & (address < extent.start + extent.size)
            if argument.placements and inside.any():
                element = (address[inside] - extent.start) // argument.storage.dtype.itemsize
                key = (number, kind in STORES, frames)
                found.setdefault(key, []).append((pc, kind == _ATOMIC, block[inside], element))
    made = []
    for (number, store, _), parts in found.items():
        argument = extents[number][0]
        assert argument.storage is not None
        size = argument.storage.size
        both = np.unique(np.concatenate([b * size + e for _, _, b, e in parts]))
        pcs = tuple(pc for pc, *_ in parts)
        atomic = any(part[1] for part in parts)
        place = own_place(kernel.kernel.place(pcs[0]))
        made.append(Site(argument, store, atomic, place, pcs, both // size, both % size))
    return tuple(sorted(made, key=lambda site: site.pcs))


def _touched(events: Sequence[tuple[int, int, int, bytes]], item: int) -> tuple[Ints, Ints]:
    """(block, address) of every element that some accesses touch."""
    blocks, addresses = [], []
    by_size: dict[int, list[tuple[int, int, bytes]]] = {}
    for number, mask, size, data in events:
        by_size.setdefault(size, []).append((number, mask, data))
    for size, same in by_size.items():
        address = np.frombuffer(b"".join(data for *_, data in same), "<u8").astype(np.int64).reshape(-1, 32)
        active = np.array([mask for _, mask, _ in same], np.int64)[:, None] >> _LANES & 1 == 1
        numbers = np.array([number for number, *_ in same], np.int64)[:, None]
        steps = np.arange(0, max(size, 1), item)
        addresses.append((address[active][:, None] + steps).ravel())
        blocks.append(np.repeat(np.broadcast_to(numbers, address.shape)[active], len(steps)))
    return np.concatenate(blocks), np.concatenate(addresses)


@dataclass(frozen=True, slots=True)
class Where:
    """What the elements of an argument's storage are: numbers of the role (-1: none), leading index, row, column."""

    roles: tuple[str, ...]
    role: Ints
    lead: Ints
    row: Ints
    column: Ints


def where(argument: BoundArgument) -> Where:
    """The logical place of every element of an argument's storage."""
    assert argument.storage is not None
    size = argument.storage.size
    table = [np.full(size, -1, np.int64) for _ in range(4)]
    for number, placement in enumerate(argument.placements.values()):
        shape = (*(1,) * (2 - len(placement.shape)), *placement.shape)
        rows, columns = shape[-2:]
        index = np.arange(int(np.prod(shape)), dtype=np.int64)
        at = np.asarray(placement.view(np.arange(size, dtype=np.int64))).reshape(-1)
        for column, values in enumerate(
            (np.full_like(index, number), index // (rows * columns), index // columns % rows, index % columns)
        ):
            table[column][at] = values
    return Where(tuple(argument.placements), *table)


@dataclass(slots=True)
class Making:
    """How a line takes part in making an address.

    Attributes:
        steps: from the access, the fewest.
        uniform: whether it computes something that is one value in the whole block, of its index or of arguments.
    """

    steps: int
    uniform: bool = False


def lines_of(kernel: EmulatedKernel, pcs: Sequence[int]) -> Mapping[tuple[str, int], Making]:
    """The user's lines on which the addresses of some instructions are made."""
    nodes = kernel.kernel.nodes
    writers = _writers(nodes)
    depends = _dependences(nodes)
    found: dict[tuple[str, int], Making] = {}
    front, seen, step = list(pcs), set(pcs), 0
    while front:
        following: list[int] = []
        for number in front:
            node = nodes[number]
            reads = any(node.op.startswith(op) for op in _READS)
            kinds = [depends[id(value)] for value in node.written() if id(value) in depends]
            uniform = step > 0 and not reads and node.op[:4] != "mov." and any(_uniform(kind) for kind in kinds)
            for key in _user_lines(node.place):
                making = found.setdefault(key, Making(step))
                making.uniform = making.uniform or uniform
            if step and reads:
                continue  # what memory held is data, not an address
            for value in _address(node) if step == 0 else node.s:
                for writer in writers.get(id(value), ()):
                    if writer not in seen:
                        seen.add(writer)
                        following.append(writer)
        front, step = following, step + 1
    return found


def _address(node: Decoded) -> Sequence[Value | None]:
    """What makes the global address of an access, and its leading dimension."""
    if node.op == "cp.async":
        return node.s[1:2]
    return node.s[:2] if node.op in ("wmma.load", "wmma.store") else node.s[:1]


def _writers(nodes: Sequence[Decoded]) -> dict[int, list[int]]:
    writers: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        for value in node.written():
            writers.setdefault(id(value), []).append(number)
    return writers


_READS = ("ld", "mma", "wmma", "shfl", "atom")
_THREAD, _BLOCK, _ARGUMENT, _LOOP = 1, 2, 4, 8


def _uniform(kind: int) -> bool:
    return kind & (_BLOCK | _ARGUMENT) != 0 and kind & (_THREAD | _LOOP) == 0


def _dependences(nodes: Sequence[Decoded]) -> Mapping[int, int]:
    """What each register depends on: the thread, the block, arguments, and whether it changes in a loop."""
    kinds: dict[int, int] = {}
    written: Counter[int] = Counter(id(value) for node in nodes for value in node.written())
    changed = True
    while changed:
        changed = False
        for node in nodes:
            if node.op == "ld":
                constant = node.s[0] is not None and node.s[0].constant is not None
                kind = _ARGUMENT if constant else _THREAD
            else:
                kind = 0
                for value in node.s:
                    if value is not None:
                        kind |= kinds.get(id(value), 0) | _preset(value)
            for value in node.written():
                mine = kind | (_LOOP if written[id(value)] > 1 else 0)
                if kinds.get(id(value), 0) | mine != kinds.get(id(value), -1):
                    kinds[id(value)] = kinds.get(id(value), 0) | mine
                    changed = True
    return kinds


def _preset(value: Value) -> int:
    if value.preset is None:
        return 0
    return _BLOCK if value.name.startswith(("%ctaid", "%nctaid", "%ntid")) else _THREAD


def _user_lines(place: Place) -> Iterator[tuple[str, int]]:
    own = own_place(place)
    frame: Place | None = own
    while frame is not None:
        if frame.line:
            yield frame.file, frame.line
        frame = frame.inlined_at
