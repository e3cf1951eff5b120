"""Arrays by the names of the source: shared arrays, arguments, module variables; their elements, types and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from wmmadiag.debugger.conditions import Watchpoint
from wmmadiag.debugger.machine import StoppableLaunch
from wmmadiag.emulator.extents import ExtentPart, MemoryExtent
from wmmadiag.errors import ConfigurationError, did_you_mean
from wmmadiag.numerics.element_types import TYPES, ElementType, element_type, storage_dtype
from wmmadiag.ops.expressions import ExpressionError, evaluate
from wmmadiag.subject.binding import BoundCase

_ELEMENT = re.compile(r"\s*&?\s*([A-Za-z_]\w*)\s*((?:\[[^\]]*\]\s*)*)")

_BY_SIZE = {1: "u8", 2: "f16", 4: "f32", 8: "f64"}
_NO_SYMBOLS: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Element:
    """Some bytes with a name: an element, or a whole array."""

    text: str  # `sK[3][5]`
    # extent, part: the memory and the array in it
    extent: MemoryExtent
    part: ExtentPart
    index: tuple[int, ...]  # () for all of it
    # start, size: device address, or offset in shared or local memory; bytes
    start: int
    size: int

    @property
    def space(self) -> str:
        """ "global", "shared" or "local"."""
        return self.extent.space

    def watch(self, *, block: int, reads: bool = False) -> Watchpoint:
        """What watches it; shared memory in one block only."""
        only = {"block": block} if self.space != "global" else {}
        return Watchpoint(self.space, self.start, self.start + self.size, reads=reads, writes=True, **only)


class NamedArrays:
    """The named arrays of one launch."""

    def __init__(self, machine: StoppableLaunch, case: BoundCase, types: Callable[[], Mapping[str, str]]) -> None:
        self._machine, self._case = machine, case
        self._types = types  # declared element type by name, as the source writes it

    @cached_property
    def extents(self) -> tuple[MemoryExtent, ...]:
        """All named memory."""
        return tuple(e for e in self._machine.kernel.named_memory(self._machine.launch) if e.size)

    @cached_property
    def parts(self) -> dict[str, tuple[MemoryExtent, ExtentPart]]:
        """Every array by its name: logical tensors before the storage that they lie in."""
        found: dict[str, tuple[MemoryExtent, ExtentPart]] = {}
        for extent in self.extents:
            whole = extent.whole
            if whole is None or whole.item == 0:
                size = self._machine_item(extent)
                whole = ExtentPart(extent.label, 0, size, (extent.size // size,), (size,))
            for part in (*extent.parts, whole):
                found.setdefault(part.name, (extent, part))
            found.setdefault(extent.label, (extent, whole))
        for argument in self._case.arguments:  # of a card: by role, too
            for role in argument.placements:
                if argument.spec.name in found and len(argument.placements) == 1:
                    found.setdefault(role, found[argument.spec.name])
        return found

    def _machine_item(self, extent: MemoryExtent) -> int:
        declared = element_type(self._types().get(extent.label, ""))
        return declared.bytes if declared is not None and extent.size % declared.bytes == 0 else 1

    def element(self, text: str) -> Element:
        """What `sK[3][5]`, `sK[3,5]`, `O[0,1,17,3]` or `sK` stands for; fewer indices stand for all below them.

        Raises:
            ConfigurationError: there is no such array or element.
        """
        match = _ELEMENT.fullmatch(text)
        if match is None:
            raise ConfigurationError(f"'{text}' is not an array's element", hint="write sK[3][5], O[0,1,17,3] or sK")
        extent, part = self._part(match[1])
        words = [w.strip() for group in re.findall(r"\[([^\]]*)\]", match[2]) for w in group.split(",")]
        index = tuple(_number(word, text) for word in words)
        shape = part.shape
        if len(index) == 1 and len(shape) > 1 and index[0] >= shape[0] and extent.whole is not None:
            index = tuple(map(int, np.unravel_index(index[0], shape))) if index[0] < np.prod(shape) else index
        if len(index) > len(shape) or any(not 0 <= i < n for i, n in zip(index, shape, strict=False)):
            hint = f"it is declared flat: {part.name}[row * pitch + column]" if len(index) > len(shape) == 1 else ""
            raise ConfigurationError(f"{part.name} has shape {shape}; there is no {text.strip()}", hint=hint)
        first = part.offset + sum(i * s for i, s in zip(index, part.strides, strict=False))
        rest = list(zip(shape, part.strides, strict=True))[len(index) :]
        size = part.item + sum((n - 1) * s for n, s in rest)
        if not index and extent.whole is part:
            first, size = part.offset, extent.size
        return Element(part.indexed(index, extent.comma), extent, part, index, extent.start + first, size)

    def _part(self, name: str) -> tuple[MemoryExtent, ExtentPart]:
        if name in self.parts:
            return self.parts[name]
        same = [known for known in self.parts if known.lower() == name.lower()]
        if len(same) == 1:
            return self.parts[same[0]]
        raise ConfigurationError(f"there is no array '{name}'", hint=did_you_mean(name, list(self.parts)))

    def type_of(self, name: str, item: int) -> ElementType:
        """The element type of an array: as the card or the source says, or the usual one of that size."""
        extent = self.parts[name][0] if name in self.parts else None
        for argument in self._case.arguments:
            own = argument.spec.name == name or name in argument.placements
            if argument.storage is not None and own and (extent is None or extent.label == argument.spec.name):
                return argument.spec.element  # not where an array of the kernel's has a role's name
        declared = element_type(self._types().get(name, ""))
        if declared is not None and declared.bytes == item:
            return declared
        return TYPES[_BY_SIZE.get(item, "u8")]

    def values(self, element: Element) -> NDArray[Any]:
        """The values now, in the declared shape, or that of what its indices leave; a copy."""
        part, kind = element.part, self.type_of(element.part.name, element.part.item)

        rest = part.shape[len(element.index) :]
        strides = part.strides[len(element.index) :]
        raw = self.bytes_of(element)
        need = part.item + sum((n - 1) * s for n, s in zip(rest, strides, strict=True))
        if raw.size < need or part.item != kind.bytes:
            return raw
        base = np.ascontiguousarray(raw[:need])
        view = as_strided(base, (*rest, part.item), (*strides, 1))
        return np.ascontiguousarray(view).view(storage_dtype(kind))[..., 0].copy()

    def bytes_of(self, element: Element) -> NDArray[np.uint8]:
        """The memory of an element or array now."""
        return self.read(element.space, element.start, element.size)

    def read(self, space: str, start: int, size: int) -> NDArray[np.uint8]:
        """Bytes of shared or global memory; empty where nothing lies.

        Raises:
            ConfigurationError: local memory, which each thread has its own of.
        """
        if space == "shared":
            return self._machine.shared()[start : start + size]
        if space != "global":
            raise ConfigurationError("each thread has its own local memory", hint="see `info local`")
        extents = self._machine.kernel.extents(self._machine.launch)
        for extent, data in zip(extents, self._hosts(), strict=False):
            if extent.start <= start < extent.start + extent.size:
                return data[start - extent.start : start - extent.start + size].copy()
        return np.zeros(0, np.uint8)

    def _hosts(self) -> Sequence[NDArray[np.uint8]]:
        arrays = [a for a in self._machine.launch.arguments if isinstance(a, np.ndarray)]
        images = self._machine.images
        return [array.reshape(-1).view(np.uint8) for array in arrays] + images

    def name(self, space: str, address: int) -> str:
        """The element at an address."""
        for known, part in self.parts.values():
            index = part.index(address - known.start) if known.space == space else None
            if index is not None and 0 <= address - known.start < known.size:
                within = (address - known.start - part.offset) % max(part.item, 1)
                return part.indexed(index, known.comma) + (f", byte {within} of it" if within else "")
        for extent in self.extents:
            if extent.space == space and extent.start <= address < extent.start + extent.size:
                return extent.element(address)
        return f"{space} address {address:#x}"


def _number(word: str, text: str) -> int:
    """The value of an index: a whole number, or an expression of numbers."""
    try:
        value = evaluate(word, _NO_SYMBOLS.__getitem__)
    except ExpressionError:
        value = None
    if not isinstance(value, int):
        raise ConfigurationError(
            f"'{text}': indices are numbers, such as 3 or 3*72+5",
            hint="variables of the kernel live in registers; see `info registers`",
        )
    return value
