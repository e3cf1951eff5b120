"""Where one output element comes from: its backward slice, by running again with a watch on every instruction."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wmmadiag.compile.names import full_name
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.decoded import CODE_SHIFT, TRANSPOSED, Decoded, Value
from wmmadiag.emulator.extents import MemoryExtent
from wmmadiag.emulator.memory_layout import PARAMETER_BASE
from wmmadiag.errors import ConfigurationError, did_you_mean
from wmmadiag.place import Place, own_place
from wmmadiag.provenance.origin import ALIKE, SliceStep
from wmmadiag.provenance.watch import STORES, BlockRecorder, WatchedAccess, WatchedStep
from wmmadiag.ptx.ir import PtxParameter
from wmmadiag.subject.binding import BoundCase


def explain(case: BoundCase, kernel: EmulatedKernel, role: str, index: Sequence[int], *, most: int = 6000) -> SliceStep:
    """The backward slice of one output element.

    Of a multiplication it follows the accumulator and, for each operand, all elements along k; through a further
    multiplication only the first of them (the others are alike). Each step is expanded once. Addresses and conditions
    are not part of it. `origin.compact` makes a short text of it.

    Args:
        case: freshly bound.
        role, index: the output element, in its logical tensor.
        most: steps to follow.

    Raises:
        ConfigurationError: there is no such output or element, or nothing stored it.
        KernelFault, BudgetError: as for a launch.
    """
    address = element_address(case, kernel, role, index)
    recorder = BlockRecorder(address)
    kernel.observed(case.launch, recorder)
    recorder.close()
    if recorder.found is None:
        raise ConfigurationError(f"nothing stored {role}{list(index)}", hint="see which blocks cover this element")
    slicer = _Slicer(case, kernel, recorder.found, most)
    last = slicer.last_store("global", address, 0, 0, len(recorder.found))
    assert last is not None
    root = SliceStep(f"{role}{list(map(int, index))}", None, [slicer.stored(*last, address)])
    slicer.follow()
    notes = ["longer than was followed"] if slicer.cut else []
    if recorder.blocks > 1:
        notes.append(f"{recorder.blocks} blocks stored here; this is the last one's part")
    root.note = "; ".join(notes)
    return root


def element_address(case: BoundCase, kernel: EmulatedKernel, role: str, index: Sequence[int]) -> int:
    """The device address of an output element.

    Raises:
        ConfigurationError: there is no such tensor or element.
    """
    arrays = [argument for argument in case.arguments if argument.storage is not None]
    for argument, extent in zip(arrays, kernel.extents(case.launch), strict=False):
        placement = argument.placements.get(role)
        if placement is None or argument.storage is None:
            continue
        inside = len(index) == len(placement.shape) and all(
            0 <= i < n for i, n in zip(index, placement.shape, strict=True)
        )
        if not inside:
            raise ConfigurationError(
                f"{role} has shape {list(placement.shape)}; there is no element {list(index)}",
                hint=f"the last one is {role}{[n - 1 for n in placement.shape]}",
            )
        offset = placement.offset + sum(i * s for i, s in zip(index, placement.strides, strict=True))
        return extent.start + offset * argument.storage.dtype.itemsize
    roles = [name for argument in case.arguments for name in argument.placements]
    raise ConfigurationError(f"the case has no tensor '{role}'", hint=did_you_mean(role, roles))


class _Slicer:
    def __init__(self, case: BoundCase, kernel: EmulatedKernel, steps: list[WatchedStep], most: int) -> None:
        self._kernel, self._steps, self._left = kernel.kernel, steps, most
        self._nodes = kernel.kernel.nodes
        self._extents = kernel.named_memory(case.launch)
        arrays = [a for a in case.arguments if a.storage is not None]
        self._arguments = list(zip(arrays, kernel.extents(case.launch), strict=False))
        self._seen: set[tuple[Any, ...]] = set()
        self._queue: deque[tuple[SliceStep, Callable[[], None], bool]] = deque()
        self._alike = False
        self.cut = False
        self._writes: dict[tuple[int, int], list[int]] = {}
        self._stores: dict[tuple[Any, ...], list[tuple[int, int, int]]] = {}
        written = [[id(value) for value in node.written()] for node in self._nodes]
        for number, step in enumerate(steps):
            landing = len(step.accesses) == 1 and step.accesses[0].kind == 4
            for value in () if landing else written[step.pc]:
                self._writes.setdefault((step.warp, value), []).append(number)
            for which, access in enumerate(step.accesses):
                if access.kind in STORES:
                    self._index(number, which, access, step.warp)

    def _index(self, number: int, which: int, access: WatchedAccess, warp: int) -> None:
        for lane in range(32):
            if access.active >> lane & 1:
                first = int(access.addresses[lane])
                for byte in range(first, first + access.size, 2 if access.size > 1 else 1):
                    key = (access.space, byte // 2, *((warp, lane) if access.space == "local" else ()))
                    self._stores.setdefault(key, []).append((number, which, lane))

    def last_store(self, space: str, address: int, warp: int, lane: int, before: int) -> tuple[int, int, int] | None:
        """(step, access, lane or line) of the last store to an address before a step."""
        key = (space, address // 2, *((warp, lane) if space == "local" else ()))
        stores = self._stores.get(key, [])
        position = bisect_left(stores, (before, -1, -1))
        return stores[position - 1] if position else None

    def _place(self, step: WatchedStep) -> Place:
        return own_place(self._kernel.place(step.pc))

    def _later(self, key: tuple[Any, ...], origin: SliceStep, expand: Callable[[], None]) -> None:
        """Expand a step when its turn comes, nearest to the output first; once only."""
        if key in self._seen:
            origin.note = "seen above"
            return
        self._seen.add(key)
        self._queue.append((origin, expand, self._alike))

    def follow(self) -> None:
        """Expand steps until none is left, or enough."""
        while self._queue:
            origin, expand, self._alike = self._queue.popleft()
            if self._left <= 0:
                origin.note = "not followed further"
                self.cut = True
                continue
            self._left -= 1
            expand()

    # Memory

    def memory(self, space: str, address: int, warp: int, lane: int, before: int) -> SliceStep:
        """Who wrote an address, or which argument's element it is."""
        store = self.last_store(space, address, warp, lane, before)
        name = self._element(space, address)
        origin = SliceStep(name)
        if store is not None:
            found = store
            self._later((space, address, store), origin, lambda: origin.children.append(self.stored(*found, address)))
        elif space != "global":
            origin.note = "nothing in this block wrote it"
        return origin

    def _element(self, space: str, address: int) -> str:
        if space == "global":
            for argument, extent in self._arguments:
                if not extent.start <= address < extent.start + extent.size or argument.storage is None:
                    continue
                element = (address - extent.start) // argument.storage.dtype.itemsize
                for role, placement in argument.placements.items():
                    index = _index_of(element - placement.offset, placement.shape, placement.strides)
                    if index is not None:
                        return f"{role}{list(index)}"
        extent_found: MemoryExtent | None = next(
            (e for e in self._extents if e.space == space and e.start <= address < e.start + e.size), None
        )
        if extent_found is None:
            for parameter in self._kernel.entry.parameters:
                if isinstance(parameter, PtxParameter) and address == PARAMETER_BASE + parameter.offset:
                    return f"parameter {parameter.name.rpartition('_param_')[2]}"
            return f"{space} address {address:#x}"
        return f"{full_name(extent_found.name).rpartition('::')[2]}, byte {address - extent_found.start}"

    def stored(self, number: int, which: int, lane: int, address: int) -> SliceStep:
        """The store of a step, and what it stored at the address."""
        step = self._steps[number]
        node, access = self._nodes[step.pc], step.accesses[which]
        origin = SliceStep(node.text or node.op, self._place(step))
        inside = address - int(access.addresses[lane])
        if node.op == "st":
            value = node.extra[inside // node.bytes]
            if isinstance(value, Value):
                origin.children.append(self.register(value, step.warp, lane, number, inside % node.bytes))
        elif node.op == "wmma.store":
            value, held_by, byte = self._fragment_register(node, lane, inside)
            origin.what += f", register {value.name or 'of the fragment'} of lane {held_by}"
            origin.children.append(self.register(value, step.warp, held_by, number, byte))
        elif node.op == "stmatrix":
            column, row = inside // 2, lane % 8
            if node.flags & TRANSPOSED:
                column, row = row, column
            value = node.extra[lane // 8]
            if isinstance(value, Value):
                source = row * 4 + column // 2
                origin.children.append(self.register(value, step.warp, source, number, column % 2 * 2))
        elif node.op == "cp.async":
            copied = self._copy_source(number, step, lane)
            if copied is not None:
                origin.children.append(self.memory("global", copied + inside, step.warp, lane, number))
        elif node.op == "atom":
            for value in node.extra:
                if isinstance(value, Value) and value not in node.written():
                    origin.children.append(self.register(value, step.warp, lane, number))
            origin.children.append(self.memory(access.space, address, step.warp, lane, number))
        return origin

    def _copy_source(self, number: int, landing: WatchedStep, lane: int) -> int | None:
        for step in reversed(self._steps[:number]):
            if step.pc != landing.pc or step.warp != landing.warp:
                continue
            for access in step.accesses:
                if access.kind == 3 and access.active >> lane & 1:
                    return int(access.addresses[lane])
        return None

    # Registers

    def register(self, value: Value, warp: int, lane: int, before: int, byte: int = 0) -> SliceStep:
        """What gave a register of a lane its value; `byte`: of packed elements, the one that begins there."""
        if value.constant is not None:
            return SliceStep(f"constant {value.constant:#x}")
        writes = self._writes.get((warp, id(value)), [])
        for position in range(bisect_left(writes, before) - 1, -1, -1):
            step = self._steps[writes[position]]
            if step.active >> lane & 1:
                return self._made(writes[position], step, value, lane, byte)
        return SliceStep(f"{value.name or 'register'}", note="" if value.preset is not None else "never written")

    def _made(self, number: int, step: WatchedStep, value: Value, lane: int, byte: int) -> SliceStep:
        node = self._nodes[step.pc]
        origin = SliceStep(node.text or node.op, self._place(step))
        if node.op == "mma" and self._alike:
            origin.what += self._position(node, value, lane)
            origin.note = ALIKE
            return origin
        key = (number, id(value), lane, byte)
        self._later(key, origin, lambda: self._expand(origin, number, step, value, lane, byte))
        return origin

    def _expand(self, origin: SliceStep, number: int, step: WatchedStep, value: Value, lane: int, byte: int) -> None:
        node = self._nodes[step.pc]
        if node.op == "mma":
            self._multiplied(origin, node, number, step.warp, value, lane)
        elif step.accesses and node.op in ("ld", "wmma.load", "ldmatrix", "atom"):
            self._loaded(origin, node, number, step, value, lane, byte)
        elif node.op == "shfl":
            self._shuffled(origin, node, number, step.warp, lane, byte)
        elif (one := _packed_source(node, value, byte)) is not None:
            origin.children.append(self.register(one[0], step.warp, lane, number, one[1]))
        else:
            for source in (*node.s, *node.extra):
                if isinstance(source, Value) and (source in node.s or source not in node.written()):
                    origin.children.append(self.register(source, step.warp, lane, number))
            origin.children = [c for c in origin.children if not c.what.startswith("constant")] or origin.children

    def _shuffled(self, origin: SliceStep, node: Decoded, number: int, warp: int, lane: int, byte: int) -> None:
        value, by, clamp = node.s[:3]
        if value is None:
            return
        if by is None or clamp is None or by.constant is None or clamp.constant is None:
            origin.note = "from a lane that depends on a value: not followed"
            return
        offset, segment = by.constant & 31, clamp.constant >> 8 & 31
        limit = lane & segment | clamp.constant & 31 & ~segment
        mode = node.flags >> CODE_SHIFT  # up, down, bfly, idx
        source = (lane - offset, lane + offset, lane ^ offset, lane & segment | offset & ~segment)[mode]
        inside = source >= limit if mode == 0 else source <= limit
        source = source if inside else lane
        origin.what += f" from lane {source}"
        origin.children.append(self.register(value, warp, source, number, byte))

    def _loaded(
        self, origin: SliceStep, node: Decoded, number: int, step: WatchedStep, value: Value, lane: int, byte: int
    ) -> None:
        access = step.accesses[0]
        if node.op == "wmma.load":
            line, inside = self._fragment_place(node, value, lane, byte)
        elif node.op == "ldmatrix":
            which = next(i for i, one in enumerate(node.extra) if one is value)
            row, column = lane // 4, lane % 4 * 2 + byte // 2
            if node.flags & TRANSPOSED:
                row, column = column, row
            line, inside = 8 * which + row, 2 * column
        else:
            position = next((i for i, one in enumerate(node.extra) if one is value), 0)
            line, inside = lane, position * node.bytes + byte
        address = int(access.addresses[line]) + inside
        origin.children.append(self.memory(access.space, address, step.warp, lane, number))

    def _multiplied(self, origin: SliceStep, node: Decoded, number: int, warp: int, value: Value, lane: int) -> None:
        spec = node.tensor
        assert spec is not None
        line, column = self._row_and_column(node, value, lane)
        origin.what += self._position(node, value, lane)
        origin.children.append(self._dense(spec.maps[2], spec.registers[2], line, column, warp, number, "C"))
        outer = self._alike
        for words, maps, registers, at in (
            ("A", spec.maps[0], spec.registers[0], line), ("B", spec.maps[1], spec.registers[1], column)
        ):  # fmt: skip
            _, _, depth = self._map(maps)
            for k in range(depth):
                self._alike = outer or k > 0
                origin.children.append(self._dense(maps, registers, at, k, warp, number, f"{words}, k = {k}"))
        self._alike = outer

    def _row_and_column(self, node: Decoded, value: Value, lane: int) -> tuple[int, int]:
        """Position in the dense accumulator of a register of a lane."""
        spec = node.tensor
        assert spec is not None
        register = next(i for i, one in enumerate(spec.registers[3]) if one is value)
        index, _, width = self._map(spec.maps[3])
        line, column = divmod(int(index[register, 0, lane]), width)
        return line, column

    def _position(self, node: Decoded, value: Value, lane: int) -> str:
        assert node.tensor is not None
        line, column = self._row_and_column(node, value, lane)
        order = list(node.tensor.column_order)
        return f", row {line}, column {order.index(column) if order else column}"

    def _dense(
        self, map_index: int, registers: Sequence[Value], line: int, inside: int, warp: int, before: int, words: str
    ) -> SliceStep:
        index, bits, width = self._map(map_index)
        register, position, lane = (int(x[0]) for x in np.nonzero(index == line * width + inside))
        source = self.register(registers[register], warp, lane, before, position * bits // 8)
        return SliceStep(f"{words}: lane {lane}", None, [source])

    def _map(self, number: int) -> tuple[Any, int, int]:
        """(positions [register][element][lane], bits of an element, width) of a fragment map."""
        _, width, registers, elements, bits, _, data = self._kernel.maps[number]
        return np.frombuffer(data, "<i2").reshape(registers, elements, 32), bits, width

    def _fragment_place(self, node: Decoded, value: Value, lane: int, byte: int) -> tuple[int, int]:
        """Line of the access, and byte in it, of the element that a register of a fragment holds at a byte."""
        assert node.tensor is not None
        register = next(i for i, one in enumerate(node.tensor.registers[3]) if one is value)
        index, bits, width = self._map(node.tensor.maps[3])
        line, inside = divmod(int(index[register, byte * 8 // bits, lane]), width)
        if node.flags & TRANSPOSED:
            line, inside = inside, line
        return line, inside * bits // 8

    def _fragment_register(self, node: Decoded, line: int, byte: int) -> tuple[Value, int, int]:
        """The register, lane and byte in it that hold the element at a byte of a line of a fragment store."""
        assert node.tensor is not None
        index, bits, width = self._map(node.tensor.maps[3])
        inside = byte * 8 // bits
        position = inside * width + line if node.flags & TRANSPOSED else line * width + inside
        register, element, lane = (int(x[0]) for x in np.nonzero(index == position))
        return node.tensor.registers[3][register], lane, element * bits // 8


def _packed_source(node: Decoded, value: Value, byte: int) -> tuple[Value, int] | None:
    """The source, and the byte in it, of one element of a packed destination; None where all sources count."""
    if node.op == "mov.pack":
        source = node.extra[byte // node.bytes]
        return (source, byte % node.bytes) if isinstance(source, Value) else None
    if node.op == "mov.unpack" and node.s[0] is not None:
        position = next(i for i, one in enumerate(node.extra) if one is value)
        return node.s[0], position * node.bytes + byte
    if node.op in ("cvt.f16x2.f32", "cvt.bf16x2.f32") and len(node.s) == 2:
        chosen = node.s[0 if byte >= 2 else 1]
        return None if chosen is None else (chosen, 0)
    if node.op in ("mov.b32", "mov.b64", "mov.b16") and node.s[0] is not None:
        return node.s[0], byte
    return None


def _index_of(element: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The logical index of a position in the storage, None if no element lies there (nested strides)."""
    index = [0] * len(shape)
    for axis in sorted(range(len(shape)), key=lambda axis: -strides[axis]):
        if strides[axis] > 0 and shape[axis] > 1:
            index[axis], element = divmod(element, strides[axis])
            if not 0 <= index[axis] < shape[axis]:
                return None
    return tuple(index) if element == 0 else None
