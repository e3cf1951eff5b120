"""A launch that stops where it is told to: the engine's debugger with names for what it takes and gives."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.debugger.conditions import ANY, Conditions
from wmmadiag.debugger.progress import LaunchProgress
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.errors import WmmadiagError
from wmmadiag.launch import Launch

MEMORY_LIMIT = 256 << 20
"""Bytes for snapshots."""
PATIENCE = 1 << 21
"""Warp instructions between looks whether a run still gets anywhere."""
INTERVAL = 1 << 17
"""Warp instructions from one snapshot to the next, as long as they fit: about 10 ms of replay."""

ACCESSES = ("load", "store", "atomic", "asynchronous load", "asynchronous store")


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run stopped."""

    # "time", "instruction", "watch", "nan", "block-end", "finished", "fault", "interrupted", "stuck" (the block gets
    # nowhere: `progress.py`)
    reason: str
    time: int  # warp instructions executed by then
    # block, warp, pc: of the next instruction; for "watch" and "nan" of the one that did it
    block: int
    warp: int
    pc: int
    lanes: int = 0  # mask of those that did it
    watch: int = 0  # index of the watch; address: its first byte that was accessed; access: words for how
    address: int = 0
    access: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """A group of lanes of one warp: `state` is "ready", "barrier" (number `barrier`) or "sync" (other lanes)."""

    warp: int
    pc: int
    lanes: int
    state: str
    barrier: int


@dataclass(frozen=True, slots=True)
class BarrierState:
    """A barrier at which somebody arrived: threads it expects (0: all), and per warp the lanes that arrived, wait."""

    number: int
    expected: int
    arrived: tuple[int, ...]
    waiting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Snapshots that are kept: how many, their bytes, the limit, and warp instructions between them."""

    snapshots: int
    bytes: int
    limit: int
    interval: int


class StoppableLaunch:
    """One launch, at one moment of it.

    A moment is a time: the number of warp instructions that were executed before it, in all blocks, in block order.
    """

    def __init__(
        self, kernel: EmulatedKernel, launch: Launch, memory_limit: int = MEMORY_LIMIT, interval: int = INTERVAL
    ) -> None:
        self.kernel, self.launch = kernel, launch
        self._native, self._memory = kernel.stepper(launch, memory_limit, interval)

    @property
    def images(self) -> list[NDArray[np.uint8]]:
        """The memory of the module's variables, in the order of `EmulatedKernel.extents` after the arguments."""
        count = sum(1 for base, image, _, _ in self.kernel.kernel.layout.images() if image.size)
        return self._memory[len(self._memory) - count :] if count else []

    @property
    def time(self) -> int:
        """Warp instructions executed so far."""
        return int(self._native.time)

    @property
    def finished(self) -> bool:
        """Whether the launch has come to its end."""
        return bool(self._native.finished)

    @property
    def fault(self) -> WmmadiagError | None:
        """What the launch died of at this time."""
        fault = self._native.fault
        if fault is None:
            return None
        return self.kernel.fault(fault, [(self.block, *row) for row in self._native.standings], self.launch)

    @property
    def fault_place(self) -> tuple[int, int, int, int] | None:
        """(block, warp, lane, pc) of the fault at this time."""
        fault = self._native.fault
        return None if fault is None else (fault["block"], fault["warp"], fault["lane"], fault["pc"])

    @property
    def block(self) -> int:
        """Linear index of the running block."""
        return int(self._native.block)

    @property
    def warps(self) -> int:
        """Warps of a block."""
        x, y, z = self.launch.block
        return -(-x * y * z // 32)

    @property
    def next(self) -> Standing | None:
        """The warp and lanes that run next; None at the end."""
        found = self._native.next
        return None if found is None else Standing(int(found[0]), int(found[1]), int(found[2]), "ready", 0)

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Where each group of lanes of the block's warps stands."""
        return tuple(Standing(*row) for row in self._native.standings)

    @property
    def barriers(self) -> tuple[BarrierState, ...]:
        """Barriers at which somebody arrived."""
        return tuple(BarrierState(n, e, tuple(a), tuple(w)) for n, e, a, w in self._native.barriers)

    @property
    def block_starts(self) -> Sequence[int]:
        """Times at which the blocks so far began."""
        starts: list[int] = self._native.block_starts
        return starts

    @property
    def output(self) -> str:
        """What device printf wrote by now."""
        return bytes(self._native.output).decode("utf-8", "replace")

    @property
    def memory_use(self) -> MemoryUse:
        """What going back costs."""
        return MemoryUse(*self._native.memory)

    def executed(self, warp: int) -> int:
        """Instructions that a warp of the block has executed."""
        return int(self._native.executed(warp))

    def registers(self, warp: int) -> bytes:
        """The register file of a warp; decode with `wmmadiag.emulator.observer.register_values`."""
        return bytes(self._native.registers(warp))

    def shared(self) -> NDArray[np.uint8]:
        """The block's shared memory, from offset 0 on (a copy)."""
        return np.frombuffer(self._native.shared, np.uint8)

    def local(self, warp: int, lane: int) -> NDArray[np.uint8]:
        """A thread's local memory (a copy)."""
        return np.frombuffer(self._native.local(warp, lane), np.uint8)

    def run(self, conditions: Conditions, *, interruptible: bool = False) -> Stop:
        """Run until a condition is met, or the block gets nowhere; the condition that holds already does not count.

        Args:
            interruptible: a user waits: Ctrl-C is a reason to stop, and no exception; so is mere suspicion.

        Raises:
            KeyboardInterrupt: the machine is somewhere on the way.
        """
        for _ in range(conditions.skip):
            stop = self._patient_run(replace(conditions, skip=0), interruptible)
            if stop.reason not in ("instruction", "watch", "nan", "block-end"):
                return stop
        return self._patient_run(replace(conditions, skip=0), interruptible)

    def _patient_run(self, conditions: Conditions, interruptible: bool) -> Stop:
        progress = LaunchProgress(self, interruptible)
        while True:
            until = min(conditions.until, self.time + PATIENCE)
            stop = self.bare_run(replace(conditions, until=until))
            if stop.reason == "interrupted" and not interruptible:
                raise KeyboardInterrupt
            if stop.reason != "time" or until == conditions.until:
                return stop
            standing = self.next
            if standing is not None and self._meets(conditions, standing):
                return Stop("instruction", self.time, self.block, standing.warp, standing.pc)
            if standing is not None and progress.stuck():
                return Stop("stuck", self.time, self.block, standing.warp, standing.pc)

    def _meets(self, c: Conditions, standing: Standing) -> bool:
        here = c.block in (ANY, self.block) and c.warp in (ANY, standing.warp)
        return here and bool(c.before) and c.before[standing.pc] != 0

    def bare_run(self, conditions: Conditions) -> Stop:
        """As `run`, however long it takes; Ctrl-C is a reason to stop."""
        return self._run(conditions, last=False)[0]

    @property
    def memory_sum(self) -> int:
        """A checksum of all global memory."""
        total = 0
        for data in self._memory:
            total = zlib.crc32(data.data, total)
        return total

    def seek(self, time: int) -> None:
        """Go to a time, forwards or backwards; as far as the launch goes.

        Raises:
            KeyboardInterrupt: the machine is somewhere on the way.
        """
        if not self._native.seek(max(time, 0)):
            raise KeyboardInterrupt

    @contextmanager
    def returning(self) -> Iterator[int]:
        """Come back to the present time, which it gives, whatever happens meanwhile."""
        now = self.time
        try:
            yield now
        finally:
            self.seek(now)

    def last_before(self, conditions: Conditions, time: int, floor: int = 0) -> Stop | None:
        """The last moment in [floor, time) at which a condition was met, or None.

        The machine is anywhere afterwards. `skip` and `until` of the conditions do not count.

        Raises:
            KeyboardInterrupt: interrupted.
        """
        end, width = time, INTERVAL
        while end > floor:
            start = max(floor, end - width)
            self.seek(max(start - 1, 0))
            stop, met = self._run(replace(conditions, until=end, skip=0), last=True)
            if stop.reason == "interrupted":
                raise KeyboardInterrupt
            if met and stop.time >= floor:
                return stop
            end, width = start, width * 2
        return None

    def watched(self, check: str, table: Iterable[int]) -> list[dict[str, Any]]:
        """Run the block from its start to now with one of the engine's checks: what it found by now.

        `tags` can be asked after it, until the machine moves.

        Raises:
            KeyboardInterrupt: the machine is somewhere on the way.
        """
        if not self._native.watch(check, list(table), self.time):
            raise KeyboardInterrupt
        found: list[dict[str, Any]] = self._native.findings()
        return found

    def tags(self, warp: int, slot: int, size: int) -> NDArray[np.uint64]:
        """Provenance of a register of `size` bytes per lane, (32, granules); empty where nothing is known."""
        tags = np.array(self._native.tags(warp, slot, size), np.uint64)
        return tags.reshape(32, -1) if tags.size else tags.reshape(32, 0)

    def _run(self, c: Conditions, *, last: bool) -> tuple[Stop, int]:
        found = self._native.run(
            c.before, c.block, c.warp, [watch.row() for watch in c.watches], c.nan, c.block_end, c.skip, c.until, last
        )
        block, warp, pc = found["where"]
        standing = self.next
        if found["reason"] in ("time", "interrupted", "block-end") and standing is not None:
            block, warp, pc = self.block, standing.warp, standing.pc
        stop = Stop(
            found["reason"], found["time"], block, warp, pc, found["lanes"], found["watch"], found["address"],
            ACCESSES[found["access"]],
        )  # fmt: skip
        return stop, int(found["met"])
