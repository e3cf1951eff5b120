"""One launch of a program on the emulator: its memory, its checks, and what is known of it already."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.launched import died
from wmmadiag.checks.registry import Check
from wmmadiag.checks.run import CheckedRuns, reported
from wmmadiag.checks.validated import is_offered
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.shared_memory import watchable
from wmmadiag.errors import KernelFault
from wmmadiag.launch import DeviceMemory, Dim3, Launch
from wmmadiag.programs.device import DeviceKernel
from wmmadiag.programs.footprint import Footprint
from wmmadiag.programs.kernel_names import base_name
from wmmadiag.programs.progress import BlockProgress
from wmmadiag.programs.repeats import Alike, Repeats, Stretch
from wmmadiag.programs.rows import FEWEST, MOST, in_turns, turns_of
from wmmadiag.results.model import ReportedFinding

FAULTS = {
    "out-of-bounds": 700, "read-only": 700, "wrong-space": 717, "misaligned": 716, "assertion": 710, "deadlock": 702,
    "launch-limits": 9,
}  # fmt: skip
"""Fault → cudaError_t (driver_types.h); any other is an unspecified launch failure."""
LAUNCH_FAILURE = 719


class MemoryRow(ctypes.Structure):
    """`WmmadiagRow` of native/memory.cpp."""

    _fields_ = (
        ("address", ctypes.c_uint64), ("size", ctypes.c_uint64), ("view", ctypes.c_uint64),
        ("version", ctypes.c_uint64), ("item", ctypes.c_uint64), ("written", ctypes.c_uint64),
        ("name", ctypes.c_char_p), ("kind", ctypes.c_uint64),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """A launch as the runtime asks for it."""

    kernel: DeviceKernel  # to launch
    # grid, block: (x, y, z); `shared`: dynamic shared memory, bytes
    grid: Dim3
    block: Dim3
    shared: int
    parameters: bytes  # the block of parameters
    place: str  # "file:line" of the launch in host code
    streams: bool = False  # whether what it touches is to be told: it may race with work in other streams
    cluster: Dim3 | None = None  # blocks of a cluster in (x, y, z); None: as the kernel was compiled


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """What a launch led to: its `cudaError_t` (0: none), warp instructions, what it printed, and findings."""

    error: int
    instructions: int
    output: str
    findings: tuple[ReportedFinding, ...]
    watched: bool
    note: str = ""  # what was not looked for


_Key: TypeAlias = "tuple[int, Dim3, Dim3, int, Dim3 | None, bytes]"


@dataclass
class Launcher:
    """Launches kernels on the memory of the runtime."""

    runtime: ctypes.CDLL  # the library
    checks: Sequence[Check]  # what to watch for
    schedules: int = 0  # other orders to try for each launch that is watched
    # whether all launches are watched; else one of those that are alike: same kernel, grid, block, shared memory and
    # arguments
    every: bool = False
    sample: int = 0  # so many blocks of a launch are watched, the rest runs bare; 0: all are
    # watched, launches: how many were, and how many there were
    watched: int = 0
    sampled: int = 0  # how many launches only a sample of blocks was watched of
    launches: int = 0
    unfollowed: int = 0  # how many touched too much to be compared with work in other streams
    settled: int = 0  # of how many only the first turns of blocks ran: the others would have changed nothing (rows.py)
    # the plain name of the kernel that does nothing, or an instantiation without blanks, "*" for all: what a program
    # says then is not about it
    idle: str = ""
    halves: bool = False  # whether it does half of what it does instead: the rest of each array stays as it was
    progress: BlockProgress = field(default_factory=BlockProgress)  # tells of long launches
    # is told of each launch that is like none before; what it returns is called when that is done
    capture: Callable[[Request, Sequence[DeviceMemory]], Callable[[], None]] | None = None
    _alike: dict[_Key, Alike] = field(default_factory=dict)
    _views: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    _lies: dict[int, int] = field(default_factory=dict)  # where each of them begins
    _rows: ctypes.Array[MemoryRow] = field(default_factory=lambda: (MemoryRow * 256)())

    def __post_init__(self) -> None:
        self.repeats = Repeats(self.runtime)
        self.notes = any(one.name == "uninitialised" for one in self.checks)

    def launch(self, request: Request) -> LaunchOutcome:
        """Run to completion.

        Raises:
            UnsupportedError, BudgetError: the emulator cannot go on.
        """
        self.launches += 1
        if self.idle and self.idle in ("*", base_name(request.kernel.name), request.kernel.name.replace(" ", "")):
            return self._halved(request) if self.halves else LaunchOutcome(0, 0, "", (), False)
        alike = self._alike_of(request)
        self.runtime.wmmadiag_keep(int(bool(self.checks) and not request.kernel.talks))
        if (known := self.repeats.of(alike)) is not None:
            alike.count += 1
            self._tell(request, known.stretches)
            return LaunchOutcome(0, known.instructions, "", (), False)
        watch = bool(self.checks) and (self.every or alike.count == 0)
        self.watched += watch
        memory = self.memory()
        before = self.repeats.before(alike, memory)
        alike.count += 1
        outcome, stretches, touched = self._run(request, memory, watch)
        if not outcome.output and not outcome.error:
            self.repeats.note(alike, before, touched, outcome.instructions, stretches)
        return outcome

    def _watch(self) -> None:
        """Begin to note which allocations are touched."""
        self.runtime.wmmadiag_watch(int(self.notes))

    def _halved(self, request: Request) -> LaunchOutcome:
        """Run, and undo the latter half of what became other in each array; one that does again what it did is done."""
        alike = self._alike_of(request)
        if alike.halved and all(self.repeats.content(address) == one for address, one in alike.halved.items()):
            return LaunchOutcome(0, 0, "", (), False)
        memory = self.memory()
        before = {address: view.copy() for address, view in self._views.items()}
        outcome, _, touched = self._run(request, memory, watch=False)
        self.runtime.wmmadiag_watch(0)  # what is undone is a change, too
        for address, view in self._views.items():
            changed = np.flatnonzero(view != before[address])
            if changed.size:
                middle = changed[changed.size // 2]
                view[middle:] = before[address][middle:]
        self.repeats.touched()
        alike.halved = {address: self.repeats.content(address) for address in touched}
        return outcome

    def _alike_of(self, request: Request) -> Alike:
        """What is known of launches that are like this one."""
        key = (
            request.kernel.number, request.grid, request.block, request.shared, request.cluster,
            request.parameters,
        )  # fmt: skip
        return self._alike.setdefault(key, Alike())

    def _tell(self, request: Request, stretches: Sequence[Stretch]) -> None:
        """What a launch touched, for races with work in other streams."""
        self.runtime.wmmadiag_called(request.kernel.name.encode())
        if request.kernel.talks:
            self.runtime.wmmadiag_talks()
        if request.streams:
            for address, size, touch in stretches:
                self.runtime.wmmadiag_touches(ctypes.c_uint64(address), ctypes.c_uint64(size), touch)

    def _run(
        self, request: Request, memory: Sequence[DeviceMemory], watch: bool
    ) -> tuple[LaunchOutcome, tuple[Stretch, ...], tuple[int, ...]]:
        """Run a launch that nothing is known of: how it ended, and what it touched, told and by addresses."""
        kernel = request.kernel
        arguments = [request.parameters[one.offset : one.offset + one.size] for one in kernel.parameters]
        first = self.capture is not None and self._alike_of(request).count == 1
        done = self.capture(request, memory) if self.capture is not None and first else None
        launch = Launch(
            request.grid, request.block, arguments, request.shared, kernel.names, memory=memory, cluster=request.cluster
        )
        launch = launch if self.notes else launch.unnoted()
        error, instructions, output = 0, 0, ""
        findings: tuple[ReportedFinding, ...] = ()
        runs = CheckedRuns(tuple(self.checks) if watch else (), self.schedules if watch else 0)
        emulated = kernel.checked if watch else kernel.bare
        blocks = request.grid[0] * request.grid[1] * request.grid[2]
        sample = self.sample if watch and self.sample < blocks else 0
        self.sampled += sample != 0
        footprint = None
        if request.streams and self.checks and not sample:
            footprint = Footprint(memory, partial(is_offered, emulated.kernel))
        if footprint is not None or sample:
            how = replace(emulated.options, observer=footprint, sample=sample)
            emulated = EmulatedKernel(emulated.kernel, how, emulated.origin)
        turns = turns_of(request.grid, kernel.unasked)
        alone = (
            watch
            or footprint is not None
            or kernel.talks
            or emulated.kernel.clusters
            or not FEWEST <= turns.count <= MOST
        )
        touched: tuple[int, ...] | None = None
        self.runtime.wmmadiag_called(kernel.name.encode())
        self._watch()
        try:
            with self.progress.of(self.launches, kernel.name, blocks):
                if alone:
                    stats = runs.launch(emulated, launch)
                else:
                    stats, touched, settled = in_turns(emulated.launch, launch, turns, self._watch, self.repeats)
                    self.settled += settled
            instructions, output = stats.warp_instructions, stats.output
            findings = runs.reported()
        except KernelFault as fault:
            end = died(fault)
            findings = (reported(end), *(one for one in runs.reported() if one.check != "memory"))
            error, output = FAULTS.get(fault.kind, LAUNCH_FAILURE), fault.output
        if done is not None:
            done()
        asked = emulated.options.checks
        left_out = sorted(set(asked) - set(watchable(emulated.kernel, launch, asked)))
        note = f"{kernel.name}: not watched for {' and '.join(left_out)}, since a cluster has more than 32 warps"
        outcome = LaunchOutcome(error, instructions, output, findings, watch, note if left_out else "")
        stretches: tuple[Stretch, ...] = ()
        if footprint is not None and request.streams:
            self.unfollowed += not footprint.complete
            stretches = tuple(footprint.stretches()) if footprint.complete else ()
        self._tell(request, stretches)
        return outcome, stretches, self.repeats.touched() if touched is None else touched

    def memory(self) -> tuple[DeviceMemory, ...]:
        """All memory that a kernel may reach, and what was freed last, to be named."""
        table: Callable[..., int] = self.runtime.wmmadiag_memory
        count = table(self._rows, ctypes.c_uint64(len(self._rows)))
        if count > len(self._rows):
            self._rows = (MemoryRow * (2 * count))()
            table(self._rows, ctypes.c_uint64(len(self._rows)))
        found = []
        views: dict[int, NDArray[np.uint8]] = {}
        for row in self._rows[:count]:
            name = row.name.decode("utf-8", "replace")
            if row.view:
                data = self._views.get(row.address)
                if data is None or self._lies.get(row.address) != row.view:  # mapped memory may grow where it is
                    self._lies[row.address] = row.view
                    data = np.ctypeslib.as_array((ctypes.c_uint8 * row.size).from_address(row.view))
                views[row.address] = data
            else:
                data = np.empty(0, np.uint8)
            item = row.item if row.size % row.item == 0 else 1
            found.append(DeviceMemory(row.address, data, name, item, row.written, row.size))
        self._views = views
        return tuple(found)
