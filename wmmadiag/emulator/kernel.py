"""A kernel on the emulator: launch it on NumPy arrays."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compile.origin import PtxOrigin
from wmmadiag.emulator import memory_layout, native
from wmmadiag.emulator.extents import ExtentPart, MemoryExtent, NamedExtents
from wmmadiag.emulator.faults import LaunchView, budget_error, fault_error
from wmmadiag.emulator.launch_limits import check_shape
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.emulator.naming import ArrayNames
from wmmadiag.emulator.output_words import Words, watched
from wmmadiag.emulator.shared_memory import clusters_of, shared_extents, watchable, whole_shared
from wmmadiag.errors import ConfigurationError, KernelFault, UnsupportedError, WmmadiagError
from wmmadiag.launch import Launch, RunStats, struct_bytes
from wmmadiag.launch.overlaps import together
from wmmadiag.launch.scalars import scalar_bytes
from wmmadiag.processes.deadline import seconds_left
from wmmadiag.ptx.ir import PtxParameter

# Where the arrays of a launch lie on the device, and what of them nothing has written yet.


_GAP = 1 << 20
"""Unmapped bytes between arrays, so that running past one is seen."""
_ALIGN = 512


def place_arrays(launch: Launch, regions: list[tuple[int, NDArray[np.uint8], bool]]) -> dict[int, int]:
    """Device address of each array argument by its index; appends their memory to `regions`.

    Arrays that overlap in host memory, such as views of one buffer, overlap in the same way on the device.
    """
    arrays = {index: one for index, one in enumerate(launch.arguments) if isinstance(one, np.ndarray)}
    placed: dict[int, int] = {}
    address = memory_layout.ARGUMENT_BASE + launch.displaced
    for group in together(arrays, launch.name):
        placed |= {index: address + offset for index, offset in group.offsets.items()}
        regions.append((address, group.data, group.writeable))
        address = memory_layout.align_up(address + group.data.nbytes + _GAP, _ALIGN) + launch.displaced
    return placed


def places(sizes: Sequence[int]) -> list[int]:
    """Device addresses of arrays of so many bytes, apart from each other like the arrays of a launch."""
    found: list[int] = []
    address = memory_layout.ARGUMENT_BASE
    for size in sizes:
        found.append(address)
        address = memory_layout.align_up(address + size + _GAP, _ALIGN)
    return found


def pointer_tables(launch: Launch, placed: Mapping[int, int]) -> dict[int, tuple[int, NDArray[np.uint8]]]:
    """Device address and bytes of each table of pointers, by the index of the array that they point into.

    Args:
        placed: the device address of each array.
    """
    found: dict[int, tuple[int, NDArray[np.uint8]]] = {}
    address = memory_layout.TABLE_BASE
    for index, (count, apart) in launch.tables.items():
        table = (placed[index] + apart * np.arange(count, dtype=np.uint64)).astype(np.uint64).view(np.uint8)
        found[index] = address, table
        address = memory_layout.align_up(address + table.nbytes + _GAP, _ALIGN)
    return found


def unwritten(launch: Launch, extents: list[MemoryExtent], checked: bool) -> list[tuple[int, int, int]]:
    """(device address, bytes, where its bits are kept or 0) of memory with bytes that nothing has written yet.

    Args:
        checked: whether anybody asks that of array arguments.
    """
    arrays = [index for index, argument in enumerate(launch.arguments) if isinstance(argument, np.ndarray)]
    placed = dict(zip(arrays, extents, strict=False))  # the extents of arguments come first, in their order
    memory = [(one.address, one.data.size, one.written) for one in launch.memory if one.data.size and one.written]
    given = launch.fresh if checked else ()
    return [(placed[i].start + part.start, len(part), 0) for i, part in given if i in placed] + memory


POISON = 0x7FFF7EAD
"""What shared and local memory holds before the kernel writes it: a NaN as f32, and two NaNs as f16."""
REGISTER_POISON = 0x7FFF7EAF
"""The same for registers that are read before they are written."""
_COOPERATIVE_PATIENCE = 1 << 14
"""Warp instructions until a block that does not end lets the next one go on, where blocks are known to wait for each
other."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may use. 0: no limit."""

    instructions: int = 4_000_000_000  # warp instructions
    seconds: float = 300.0  # wall time


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """How the emulator runs a launch."""

    threads: int = 0  # host threads; 0: as many as this process may use. The result does not depend on it.
    budget: Budget = Budget()  # what the run may use
    warp_order: tuple[int, ...] = ()  # order in which the warps of a block get their turns; empty: 0, 1, 2, …
    eager_copies: bool = False  # cp.async data is visible at once, instead of at the wait that covers it
    last_block_first: bool = False  # blocks begin in the opposite order, on one thread
    # warp instructions until a block that does not end lets the next one start; 0: the engine's own number
    patience: int = 0
    observer: object | None = None  # an object with any of the methods that `wmmadiag.emulator.observer` names
    # names of the engine's checks to run; what they find is in `EmulatedKernel.raw_findings`
    checks: tuple[str, ...] = ()
    # so many blocks, spread over the grid, are watched by the checks, the rest runs bare; 0: all are. Then nothing is
    # said of races between blocks.
    sample: int = 0
    # address of a 64-bit number that counts the blocks that have begun, for a look at a long launch; 0: none
    begun: int = 0
    multiprocessors: int = 0  # of the device, as %nsmid tells; 0: each block has one of its own
    check_table: tuple[int, ...] = ()  # what a native check takes from Python; only provenance has one
    # poison, register_poison: what memory and registers hold that nothing has written
    poison: int = POISON
    register_poison: int = REGISTER_POISON


Region: TypeAlias = tuple[int, NDArray[np.uint8], bool]
"""Device address, bytes, and whether it may be written."""


def _hangs_on_others(raw: Mapping[str, Any]) -> bool:
    """Whether a finding of the engine is only so if no block that nobody watched did something about it."""
    return raw["check"] == "races" and str(raw["kind"]).startswith("blocks-")


class EmulatedKernel:
    """A lowered kernel; see `wmmadiag.emulator.load`."""

    def __init__(self, kernel: LoweredKernel, options: EmulatorOptions, origin: PtxOrigin | None = None) -> None:
        self.kernel = kernel
        self.options = options
        self.origin = origin
        self._names = ArrayNames(kernel, origin)
        self._in_order = False
        self.raw_findings: list[dict[str, Any]] = []
        self.output_words: dict[int, Words] = {}
        self.finished = False

    def launch(self, launch: Launch) -> RunStats:
        """Run to completion; arrays in `launch.arguments` are changed in place.

        Raises:
            KernelFault: the launch died; the arrays hold what had been written.
            BudgetError: it did not end within the budget, or the command's time is over.
            ConfigurationError: grid, block or arguments do not fit the kernel.
        """
        self.raw_findings, self.output_words, self.finished = [], {}, False
        limit = seconds_left(self.options.budget.seconds)
        check_shape(self.kernel, launch)
        self._check_options(launch)
        regions, extents = self.memory(launch)
        kernel, options = self.kernel, self.options
        table: list[tuple[int, int, int, int]] = []
        if "outputs" in options.checks:
            table, self.output_words = watched(launch, extents)
        extents += shared_extents(self.kernel, launch)
        start = time.perf_counter()
        result = native.engine().run(
            *self.placed(launch, regions),
            options.threads or len(os.sched_getaffinity(0)),
            options.budget.instructions,
            limit,
            options.poison,
            options.register_poison,
            list(options.warp_order),
            options.eager_copies,
            self._in_order,
            options.observer,
            list(watchable(self.kernel, launch, self.options.checks)),
            **({"cluster": clusters} if (clusters := clusters_of(self.kernel, launch)) else {}),
            **({"check_table": list(options.check_table)} if options.check_table else {}),
            **({"watched": table} if table else {}),
            **({"patience": self.patience} if self.patience else {}),
            **({"last_block_first": True} if options.last_block_first else {}),
            **({"sample": options.sample} if options.sample else {}),
            **({"begun": options.begun} if options.begun else {}),
            **({"multiprocessors": options.multiprocessors} if options.multiprocessors else {}),
            **({"fresh": fresh} if (fresh := unwritten(launch, extents, bool(options.checks))) else {}),
        )
        seconds = time.perf_counter() - start
        self._in_order = self._in_order or result["order_mattered"]
        self.raw_findings = [raw for raw in result["findings"] if not (options.sample and _hangs_on_others(raw))]
        if result["outcome"] == "finished":
            self.finished = True
            return RunStats(
                warp_instructions=result["instructions"],
                seconds=seconds,
                output=result["output"].decode("utf-8", "replace"),
                threads=result["threads"],
            )
        view = LaunchView(kernel, launch.grid, self._names.named(extents, launch))
        if result["outcome"] == "fault":
            fault = fault_error(result["fault"], result["standings"], view)
            if isinstance(fault, KernelFault):
                fault.output = result["output"].decode("utf-8", "replace")
            raise fault
        raise budget_error(result["outcome"], result["standings"], view, options.budget.instructions, limit)

    def observed(self, launch: Launch, observer: object) -> None:
        """Run a launch with an observer, block after block and without checks; what this kernel knows of runs stays.

        Raises: as `launch`.
        """
        options = replace(self.options, threads=1, checks=(), check_table=(), observer=observer)
        EmulatedKernel(self.kernel, options).launch(launch)

    @property
    def names(self) -> ArrayNames:
        """What the source says of its arrays and its resources."""
        return self._names

    def stepper(self, launch: Launch, memory_limit: int, interval: int) -> tuple[Any, list[NDArray[np.uint8]]]:
        """The engine's debugger (`native/debugger.hpp`) at the beginning of a launch, and the memory that it works on.

        Args:
            launch: its arrays are changed in place, and back.
            memory_limit: bytes for snapshots.
            interval: warp instructions from one snapshot to the next, at first.

        Raises: as `launch`, for what does not fit the kernel.
            UnsupportedError: blocks wait for each other; here each runs to its end.
        """
        if self.kernel.clusters:
            raise UnsupportedError(
                "the debugger does not stop in kernels that know of clusters of blocks", place=self.kernel.entry.place,
                hint="wmmadiag check, and its findings",
            )  # fmt: skip
        if self.kernel.layout.grid_workspace and max(launch.grid) > 1:
            raise UnsupportedError(
                "the debugger runs block after block, and this kernel's blocks wait for each other at a grid barrier",
                place=self.kernel.entry.place,
                hint="debug a case with one block",
            )
        check_shape(self.kernel, launch)
        self._check_options(launch)
        regions, _ = self.memory(launch)
        options = self.options
        made = native.debug(
            *self.placed(launch, regions),
            options.poison,
            options.register_poison,
            list(options.warp_order),
            options.eager_copies,
            memory_limit,
            interval,
        )
        return made, [data for _, data, _ in regions]

    def placed(self, launch: Launch, regions: Sequence[Region]) -> tuple[Any, ...]:
        """What every run of the engine takes first: the program, its shape and its memory; `regions`: of `memory`."""
        rows = [(base, data.ctypes.data, data.nbytes, writable) for base, data, writable in regions]
        layout = self.kernel.layout
        shared = whole_shared(self.kernel, launch)
        return self.kernel.program, launch.grid, launch.block, rows, layout.shared_begin, shared, launch.shared_bytes

    def fault(self, fault: Mapping[str, Any], standings: Sequence[tuple[Any, ...]], launch: Launch) -> WmmadiagError:
        """The error for a fault as the engine reports it; `standings`: where groups of lanes stand."""
        extents = self.memory(launch)[1] + shared_extents(self.kernel, launch)
        return fault_error(fault, standings, LaunchView(self.kernel, launch.grid, self._names.named(extents, launch)))

    def extents(self, launch: Launch) -> list[MemoryExtent]:
        """Name, device address and size of each array argument and global variable, as a launch places them."""
        return self.memory(launch)[1]

    def named_memory(self, launch: Launch) -> NamedExtents:
        """All memory that has a name: `extents`, the block's shared arrays, and a thread's local memory."""
        return self._names.named(self.memory(launch)[1] + shared_extents(self.kernel, launch), launch)

    @property
    def patience(self) -> int:
        """Warp instructions until a block that does not end lets the next one go on; 0: the engine's own number."""
        return self.options.patience or (_COOPERATIVE_PATIENCE if self.kernel.layout.grid_workspace else 0)

    def static_arrays(self) -> dict[str, int]:
        """Bytes of each static shared array, by its name in the source."""
        placed = self.kernel.layout.shared
        return {
            MemoryExtent(key.rpartition(":")[2], "shared", 0, 0).label: one.variable.size for key, one in placed.items()
        }

    def _check_options(self, launch: Launch) -> None:
        options = self.options
        if options.threads < 0 or options.budget.instructions < 0 or options.budget.seconds < 0:
            raise ConfigurationError(
                f"{options.threads} threads, {options.budget}: negative",
                hint="0 stands for all processors, or no limit",
            )
        warps = -(-launch.block[0] * launch.block[1] * launch.block[2] // 32)
        if options.warp_order and sorted(options.warp_order) != list(range(warps)):
            raise ConfigurationError(
                f"warp order {options.warp_order} does not name each of the block's {warps} warps once",
                hint="leave it empty for 0, 1, 2, …",
            )

    def memory(self, launch: Launch) -> tuple[list[Region], list[MemoryExtent]]:
        """All memory, and names for it: array arguments first, in their order."""
        parameters = self.kernel.entry.parameters
        given = launch.parameters()
        if len(given) != len(parameters):
            raise ConfigurationError(
                f"{self.kernel.entry.name} takes {len(parameters)} arguments, {len(given)} were given",
                place=self.kernel.entry.place,
                hint="give one for each parameter of the kernel, in its order",
            )
        regions: list[Region] = []
        extents: list[MemoryExtent] = []
        placed = place_arrays(launch, regions)
        tables = pointer_tables(launch, placed)
        size = max((p.offset + p.size for p in parameters if isinstance(p, PtxParameter)), default=0)
        block = np.zeros(max(size, 1), np.uint8)
        for parameter, indices in zip(parameters, given, strict=True):
            if not isinstance(parameter, PtxParameter):
                raise ConfigurationError(
                    f"parameter {parameter.name} of the kernel is a register",
                    place=self.kernel.entry.place,
                    hint="this PTX is a function, not a kernel: compile a __global__ function",
                )
            name = " and ".join(launch.name(index) for index in indices)
            values: list[bytes] = []
            for index in indices:
                argument = launch.arguments[index]
                if isinstance(argument, np.ndarray):
                    extents.append(MemoryExtent(launch.name(index), "global", placed[index], argument.nbytes))
                    at = tables[index][0] if index in tables else placed[index]
                    values.append(at.to_bytes(8, "little"))
                else:
                    values.append(scalar_bytes(argument, parameter, launch.name(index)))
            value = values[0] if (indices.start, len(indices)) not in launch.structs else struct_bytes(values)
            if len(value) != parameter.size:
                raise ConfigurationError(
                    f"{name}: {len(value)} bytes given for a parameter of {parameter.size} bytes (.{parameter.type})",
                    place=self.kernel.entry.place,
                    hint="pass an array for a pointer, and a scalar of the parameter's type otherwise",
                )  # fmt: skip
            block[parameter.offset : parameter.offset + parameter.size] = np.frombuffer(value, np.uint8)
        for index, (address, table) in tables.items():
            regions.append((address, table, False))
            extents.append(MemoryExtent(f"the pointers of {launch.name(index)}", "global", address, table.nbytes))
        regions.append((memory_layout.PARAMETER_BASE, block, False))
        if self.kernel.layout.grid_workspace:
            workspace = np.zeros(memory_layout.GRID_WORKSPACE_BYTES, np.uint8)
            regions.append((memory_layout.GRID_WORKSPACE_BASE, workspace, True))
            extents.append(
                MemoryExtent("the grid's barrier", "global", memory_layout.GRID_WORKSPACE_BASE, workspace.nbytes)
            )
        given_at = {one.address for one in launch.memory}
        for one in launch.memory:
            extent = MemoryExtent(one.name, "global", one.address, one.size or one.data.nbytes)
            extents.append(
                extent.of(ExtentPart(one.name.partition(",")[0], 0, one.item, (extent.size // one.item,), (one.item,)))
            )
            if one.data.size:
                regions.append((one.address, one.data, one.data.flags.writeable))
        for base, image, writable, name in self.kernel.layout.images():
            if image.size and base not in given_at:
                regions.append((base, image, writable))
                extents.append(MemoryExtent(name, "global", base, image.nbytes))
        return regions, extents
