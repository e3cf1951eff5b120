"""A kernel's PTX as a program for the engine: select, order, allocate, pack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator import native, select_bulk, select_lane, select_memory, select_tensor, select_warp
from wmmadiag.emulator.control_flow import Block, frontier_order, linearise, split_blocks
from wmmadiag.emulator.decoded import UNSEEN, Decoded, Value
from wmmadiag.emulator.limits import limits
from wmmadiag.emulator.memory_layout import MemoryLayout
from wmmadiag.emulator.registers import LANES, MASK_BYTES, allocate
from wmmadiag.emulator.select_cluster import ClusterValues, in_clusters
from wmmadiag.emulator.select_control import expand
from wmmadiag.emulator.selection import Selector
from wmmadiag.errors import ConfigurationError, UnsupportedError
from wmmadiag.place import Place

# Importing them registers their operations.
from wmmadiag.processes.collection import paused_collection
from wmmadiag.ptx.calls import reached
from wmmadiag.ptx.components import components
from wmmadiag.ptx.ir import Module, PtxFunction, Space

_ = (select_bulk, select_lane, select_memory, select_tensor, select_warp)

RAW = np.dtype(
    [
        ("op", "<u4"), ("modifiers", "<u4"), ("guard", "<u4"), ("guard_invert", "<u4"), ("d", "<u4"), ("d2", "<u4"),
        ("s", "<u4", 4), ("target", "<u4"), ("extra", "<u4"), ("space", "u1"), ("bytes", "u1"),
        ("register_bytes", "u1"),
        ("count", "u1"), ("flags", "<u4"), ("immediate", "<i8"),
    ]
)  # fmt: skip
"""`RawInst` of program.hpp."""

_NO_OPERAND, _CONSTANT = 0xFFFFFFFF, 0x80000000
_WIDEST = 512  # bytes of a 128-bit register: room that the engine wants behind every slot


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """A kernel ready for the engine."""

    entry: PtxFunction  # its PTX function
    arch: str
    program: Any  # the engine's program
    nodes: tuple[Decoded, ...]  # operations by program counter, with place and text
    slots: dict[Value, int]  # register-file byte offset of each virtual register
    layout: MemoryLayout  # where variables lie
    # static_shared, dynamic_offset: bytes of static shared memory, and offset at which dynamic memory begins
    static_shared: int
    dynamic_offset: int
    local_bytes: int  # local memory of a lane
    clusters: bool = False  # whether it knows of clusters of blocks
    maps: tuple[Any, ...] = ()  # fragment maps, as the engine takes them; `TensorSpec.maps` are positions here
    # program counter of each branch → where it may go, besides the next operation
    branches: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def place(self, pc: int) -> Place:
        """Place of the operation at a program counter."""
        return self.nodes[min(pc, len(self.nodes) - 1)].place


@paused_collection()
def lower(
    module: Module,
    entry: str,
    arch: str,
    *,
    share_registers: bool = True,
    least_aligned: bool = False,
    addresses: Mapping[str, int] = MappingProxyType({}),
) -> LoweredKernel:
    """Lower one kernel of a module.

    Args:
        module: verified PTX.
        entry: name of the kernel.
        arch: whose tensor cores to emulate, at least the module's target.
        share_registers: let registers that are never alive together share storage.
        least_aligned: place static shared arrays at addresses that are aligned as declared and no more.
        addresses: of variables of the module, by name; the others are placed here.

    Raises:
        ConfigurationError: there is no such kernel, or the PTX is for a newer architecture.
        UnsupportedError: the kernel reaches something that is not emulated.
    """
    select, layout = _selected(module, entry, arch, True, least_aligned, addresses)
    function = select.entry
    blocks = split_blocks(select.nodes, select.labels)
    order = frontier_order(blocks)
    nodes, positions = linearise(blocks, order)
    _mark_unseen(nodes)
    slots, file_bytes = allocate(blocks, order, nodes, positions, share=share_registers)
    program = _pack(select, blocks, nodes, positions, slots, file_bytes)
    return LoweredKernel(
        function,
        arch,
        program,
        tuple(nodes),
        slots,
        layout,
        layout.static_bytes,
        layout.dynamic_offset,
        select.local_bytes,
        select.cluster is not None,
        tuple(select.maps.rows),
        _branches(select, blocks, nodes, positions),
    )


def _mark_unseen(nodes: Sequence[Decoded]) -> None:
    """Atomics whose result nothing reads are reductions: what they find tells nobody anything."""
    if not any(node.op == "atom" for node in nodes):
        return
    readers: dict[Value, set[int]] = {}
    for index, node in enumerate(nodes):
        for value in node.read():
            readers.setdefault(value, set()).add(index)
    for index, node in enumerate(nodes):
        if node.op == "atom" and all(readers.get(value, set()) <= {index} for value in node.written()):
            node.flags |= UNSEEN


@paused_collection()
def refuse_unsupported(module: Module, entry: str, arch: str) -> MemoryLayout:
    """Refuse a kernel that cannot run here, by its first such instruction; returns where its variables lie.

    Raises: as `lower`.
    """
    return _selected(module, entry, arch, False, False)[1]


def _selected(
    module: Module,
    entry: str,
    arch: str,
    fuse: bool,
    least_aligned: bool,
    addresses: Mapping[str, int] = MappingProxyType({}),
) -> tuple[Selector, MemoryLayout]:
    """A kernel's operations, calls expanded, in the order of the PTX."""
    function = module.functions.get(entry)
    if function is None or not function.entry or function.declared_only:
        raise ConfigurationError(
            f"there is no kernel {entry}", hint=f"kernels in this PTX: {', '.join(module.entries) or 'none'}"
        )
    bounds = limits(arch)
    layout = MemoryLayout(module, bounds.reserved_shared, least_aligned, addresses)
    for variable in module.variables.values():  # other shared variables are placed where this kernel uses them
        for _, _, _, symbol, _ in variable.initializer.relocations if variable.initializer else ():
            target = module.variables.get(symbol.name)
            if target is not None and target.space is Space.SHARED:
                layout.shared_address(symbol.name, target)
    select = Selector(module, function, layout, arch)
    select.fuse = fuse
    calls = reached(module, function)
    select.circles = components(calls)
    if in_clusters(module, function, calls):
        select.cluster = ClusterValues(select)
    expand(select, function)
    select.ends()
    if select.local_bytes > bounds.local_per_thread:
        raise UnsupportedError(
            f"{entry} needs {select.local_bytes} bytes of local memory per thread; "
            f"{arch} has {bounds.local_per_thread}",
            place=function.place,
            hint="make the arrays that each thread has smaller",
        )
    select.finish()
    return select, layout


def _branches(
    select: Selector, blocks: list[Block], nodes: list[Decoded], positions: dict[int, int]
) -> dict[int, tuple[int, ...]]:
    at_label = {block.start: number for number, block in enumerate(blocks)}
    return {
        pc: tuple(_position(select, at_label, positions, name) for name in node.targets or (node.target or "",))
        for pc, node in enumerate(nodes)
        if node.target is not None or node.targets
    }


def _position(select: Selector, at_label: dict[int, int], positions: dict[int, int], label: str) -> int:
    if label.startswith("block:"):
        return positions[int(label.removeprefix("block:"))]
    return positions[at_label[select.labels[label]]]


def _constants(select: Selector) -> tuple[dict[Value, int], NDArray[np.uint8]]:
    """Offset of each constant in the pool, and the pool: every value broadcast to 32 lanes."""
    offsets: dict[Value, int] = {}
    parts: list[NDArray[np.uint8]] = []
    size = 0
    for value in sorted(select.constants(), key=lambda value: -value.bytes):
        bits = value.constant or 0
        if value.bytes == 0:
            part = np.full(MASK_BYTES, 0xFF if bits else 0, np.uint8)
        else:
            part = np.tile(np.frombuffer(bits.to_bytes(16, "little")[: value.bytes], np.uint8), LANES)
        offsets[value] = size
        parts.append(part)
        size += part.size
    return offsets, np.concatenate([*parts, np.zeros(_WIDEST, np.uint8)])


def _pack(
    select: Selector,
    blocks: list[Block],
    nodes: list[Decoded],
    positions: dict[int, int],
    slots: dict[Value, int],
    file_bytes: int,
) -> Any:
    always = select.constant(1, 0)
    pool, constants = _constants(select)
    at_label = {block.start: number for number, block in enumerate(blocks)}

    def slot(value: Value | int | None) -> int:
        if value is None:
            return _NO_OPERAND
        if isinstance(value, int):
            return value
        return pool[value] | _CONSTANT if value.constant is not None else slots[value]

    def position(label: str) -> int:
        return _position(select, at_label, positions, label)

    names: dict[str, int] = {}
    extra: list[int] = []
    tensor: list[tuple[Any, ...]] = []
    code = np.zeros(len(nodes), RAW)
    rows = []
    for node in nodes:
        target = position(node.target) if node.target is not None else 0
        if node.tensor is not None:
            target = len(tensor)
            spec = node.tensor
            maps = [max(index, 0) for index in spec.maps]
            tensor.append(
                (
                    spec.rule,
                    *maps,
                    *([slot(v) for v in group] for group in spec.registers),
                    list(spec.column_order),
                    spec.tiles,
                )
            )
        first = len(extra)
        if node.targets:
            extra += [len(node.targets), *map(position, node.targets)]
        extra += map(slot, node.extra)
        sources = (*map(slot, node.s), *(_NO_OPERAND,) * 4)[:4]
        guard = slot(node.guard if node.guard is not None else always)
        rows.append(
            (
                names.setdefault(node.op, len(names)), node.modifiers, guard, _NO_OPERAND if node.guard_negated else 0,
                slot(node.d), slot(node.d2), sources, target, first, node.space, node.bytes,
                node.register_bytes, node.count,
                node.flags, node.immediate,
            )
        )  # fmt: skip
    code[:] = rows
    presets = np.array(
        [(value.preset, slots[value], value.bytes) for value in select.presets() if value in slots], np.uint32
    ).reshape(-1)
    return native.engine().load(
        list(names),
        code.view(np.uint8),
        np.array(extra, np.uint32).view(np.uint8),
        constants,
        presets.view(np.uint8),
        select.maps.rows,
        tensor,
        file_bytes + _WIDEST,
        select.local_bytes,
    )
