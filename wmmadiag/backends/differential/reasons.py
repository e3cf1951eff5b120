"""Why a run on the emulator and one on a GPU may differ: each known reason is tried, none is guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.faults import coordinates
from wmmadiag.errors import WmmadiagError
from wmmadiag.gpu import Assembly, GpuKernel
from wmmadiag.launch import ArraysByIndex, Launch
from wmmadiag.place import Place
from wmmadiag.ptx.meaning import Dataflow, meaning
from wmmadiag.ptx.types import CLASSES

# Where two runs of one launch left different bits.


@dataclass(frozen=True, slots=True)
class ArrayDifference:
    """One array that differs."""

    name: str  # for messages
    # count, total: elements that differ, and elements
    count: int
    total: int
    first: int  # flat index of the first one
    # emulator, gpu: that element's values, as text
    emulator: str
    gpu: str
    byte: int  # offset of the element in the array
    item: int  # bytes of an element

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.count:,} of {self.total:,} elements differ; the first, {self.name}[{self.first}], "
            f"is {self.emulator} on the emulator and {self.gpu} on the GPU"
        )


def differences(
    emulator: Mapping[int, NDArray[Any]], gpu: Mapping[int, NDArray[Any]], names: Mapping[int, str]
) -> tuple[ArrayDifference, ...]:
    """The arrays (by argument index) whose bits differ, in order."""
    found = []
    for index in sorted(emulator):
        ours, theirs = (_bits(one[index]) for one in (emulator, gpu))
        wrong = np.flatnonzero((ours != theirs).any(axis=1))
        if not wrong.size:
            continue
        first = int(wrong[0])
        item = emulator[index].dtype.itemsize
        found.append(
            ArrayDifference(
                names[index], int(wrong.size), len(ours), first, _text(emulator[index], first),
                _text(gpu[index], first), first * item, item,
            )
        )  # fmt: skip
    return tuple(found)


def _bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    """[elements, bytes of an element]."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, array.dtype.itemsize)


def _text(array: NDArray[Any], index: int) -> str:
    """Value and bits of an element."""
    element = array.reshape(-1)[index : index + 1]
    bits = int.from_bytes(element.tobytes(), "little")
    return f"{element[0]} ({bits:#0{2 + 2 * element.dtype.itemsize}x})"


Again = Callable[["GpuKernel | EmulatedKernel"], "ArraysByIndex | None"]

_STORES = frozenset({1, 2, 4})  # AccessKind: store, atomic, async_store
_GLOBAL = 1  # Space


def reasons(
    emulated: EmulatedKernel, gpu: GpuKernel, ours: ArraysByIndex, theirs: ArraysByIndex, again: Again, warps: int
) -> list[str]:
    """One sentence for each reason that another run shows or the code holds. `warps`: of a block."""
    found = []
    second = again(gpu)
    if second is not None and not _same(theirs, second):
        found.append("two runs on the GPU differ from each other: a race, or atomic sums whose order is free")
    options = emulated.options
    backwards = again(EmulatedKernel(emulated.kernel, replace(options, warp_order=tuple(reversed(range(warps))))))
    if backwards is not None and not _same(ours, backwards):
        found.append("the emulator's result depends on the order in which warps run: a race, or an order left free")
    eager = again(EmulatedKernel(emulated.kernel, replace(options, eager_copies=True)))
    if eager is not None and not _same(ours, eager):
        found.append("the result depends on when cp.async data arrives: it is read before the wait that covers it")
    other = again(EmulatedKernel(emulated.kernel, replace(options, poison=0, register_poison=0)))
    if other is not None and not _same(ours, other):
        found.append("the result depends on what uninitialised shared or local memory, or a register, holds")
    plain = _assembled_anew(gpu, Assembly(fuse=False))
    unfused = again(plain) if plain is not None else None
    if unfused is not None and not _same(theirs, unfused) and _same(ours, unfused):
        found.append("the GPU's assembler fused multiplications and additions, which PTX allows where the kernel gives "
                     "no rounding; without that the GPU gives the emulator's bits")  # fmt: skip
    elif second is not None and _same(theirs, second):
        plain = _assembled_anew(gpu, Assembly(level=0, fuse=False))
        literal = again(plain) if plain is not None else None
        if literal is not None and _same(ours, literal):
            found.append("without the assembler's optimisation the GPU gives the emulator's bits: the kernel relies on "
                         "what PTX leaves unspecified, such as the bits of a NaN")  # fmt: skip
    sums = atomic_sums(emulated)
    if sums:
        found.append(f"floating-point sums by atomics, whose order is free, at {', '.join(map(str, sums))}")
    used = approximate_operations(emulated)
    if used:
        places = ", ".join(f"{name} at {place}" for name, place in used.items())
        found.append(f"the kernel uses functions that the ISA leaves approximate: {places}")
    if not found:
        found.append("no known reason shows: please report this as a bug of the emulator, with the kernel")
    return found


def _assembled_anew(gpu: GpuKernel, how: Assembly) -> GpuKernel | None:
    try:
        return GpuKernel(gpu.ptx, gpu.entry, gpu.device, replace(gpu.options, assembly=how))
    except WmmadiagError:
        return None


def approximate_operations(emulated: EmulatedKernel) -> dict[str, Place]:
    """The approximate operations in the kernel's program, each with the first place in the user's source."""
    found: dict[str, Place] = {}
    for node in emulated.kernel.nodes:
        if ".approx" in node.op or ".full" in node.op:
            *_, outermost = node.place.frames()
            found.setdefault(node.op, outermost)
    return found


def atomic_sums(emulated: EmulatedKernel) -> list[Place]:
    """Where the kernel adds floating-point numbers by atomics, in the user's source: their order changes the bits."""
    places = []
    for node in emulated.kernel.nodes:
        does = meaning(node.text)
        sums = does.flow is Dataflow.UPDATE and does.attributes.get("operation") == "add"
        if sums and CLASSES.get(does.type) in ("float", "packed"):
            *_, outermost = node.place.frames()
            places.append(outermost)
    return list(dict.fromkeys(places))


class _LastStore:
    """Observer: the last store to one element."""

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size
        self.seen: tuple[int, int, int, int] | None = None

    def on_memory(
        self, where: tuple[int, int, int], space: int, kind: int, active: int, bytes_: int, raw: bytes
    ) -> None:
        if space != _GLOBAL or kind not in _STORES:
            return
        addresses = np.frombuffer(raw, np.uint64).astype(np.int64)
        hit = (addresses < self.address + self.size) & (addresses + bytes_ > self.address)
        lanes = [lane for lane in np.flatnonzero(hit) if active >> int(lane) & 1]
        if lanes:
            self.seen = (*where, int(lanes[-1]))


def last_store(emulated: EmulatedKernel, launch: Launch, difference: ArrayDifference) -> str:
    """Who wrote the first differing element last on the emulator, with the user's line; "" if nobody did."""
    extent = next((one for one in emulated.extents(launch) if one.name == difference.name), None)
    if extent is None:
        return ""
    watch = _LastStore(extent.start + difference.byte, difference.item)
    try:
        EmulatedKernel(emulated.kernel, replace(emulated.options, observer=watch)).launch(launch)
    except WmmadiagError:
        return ""
    if watch.seen is None:
        return f"on the emulator nothing stores to {difference.name}[{difference.first}]"
    block, warp, pc, lane = watch.seen
    *_, place = emulated.kernel.place(pc).frames()
    return (
        f"{difference.name}[{difference.first}] was stored last at {place}, "
        f"by block {coordinates(block, launch.grid)}, warp {warp}, lane {lane}"
    )


def _same(one: ArraysByIndex, other: ArraysByIndex) -> bool:
    return all(one[index].tobytes() == other[index].tobytes() for index in one)
