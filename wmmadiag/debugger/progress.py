"""Whether a run still gets anywhere: a block that waits for what never comes would run for ever.

Blocks run one after the other here, so that a block which waits for a later one (a barrier across the grid, made of
atomics) never ends, and neither does an endless loop. The machine is deterministic: a block whose whole state comes
back will come back to it for ever. A loop that counts or looks at a clock has no such state; it is only suspected.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wmmadiag.debugger.conditions import Conditions, Watchpoint

if TYPE_CHECKING:
    from wmmadiag.debugger.machine import StoppableLaunch
    from wmmadiag.debugger.position import Position

_RETURNS = 64
_LONGEST = 1 << 16
"""Warp instructions of one way round, at most."""
_QUIET = 8
"""Looks without any change after which a loop is suspected."""
_POLLS = 24
_GLOBAL = (0, 1 << 62)


@dataclass(slots=True)
class LaunchProgress:
    """Looks at a machine from time to time, all the while that one run lasts."""

    machine: StoppableLaunch  # whose progress
    suspect: bool  # whether a long time without any change is enough
    _seen: Any = None
    _quiet: int = 0

    def stuck(self) -> bool:
        """Whether the running block gets nowhere; the machine stays where it is."""
        now = self._outline()
        same, self._seen = now == self._seen, now
        if not same:
            self._quiet = 0
            return False
        self._quiet += 1
        return self._comes_back() or (self.suspect and self._quiet >= _QUIET)

    def _outline(self) -> Any:
        """What changes when something happens: the block, its threads, memory."""
        machine = self.machine
        lanes = tuple((one.warp, one.lanes, one.state) for one in machine.standings if one.state != "ready")
        alive = sum(one.lanes.bit_count() for one in machine.standings)
        return machine.block, lanes, alive, machine.memory_sum, zlib.crc32(machine.shared().data)

    def _comes_back(self) -> bool:
        """Whether the block's state repeats."""
        machine = self.machine
        first = machine.next
        if first is None:
            return False
        table = bytearray(len(machine.kernel.kernel.nodes))
        table[first.pc] = 1
        reference, block = self._state(), machine.block
        ready = {one.warp: machine.executed(one.warp) for one in machine.standings if one.state == "ready"}
        with machine.returning():
            for _ in range(_RETURNS):
                until = machine.time + _LONGEST
                stop = machine.bare_run(Conditions(before=bytes(table), block=block, warp=first.warp, until=until))
                if stop.reason != "instruction":
                    return False
                if all(machine.executed(warp) > count for warp, count in ready.items()) and self._state() == reference:
                    return True
        return False

    def _state(self) -> Any:
        machine = self.machine
        warps = range(machine.warps)
        local = [zlib.crc32(machine.local(warp, lane).data) for warp in warps for lane in range(32)]
        registers = [machine.registers(warp) for warp in warps]
        return registers, local, machine.standings, machine.barriers, self._outline()


def stuck_words(session: Position) -> str:
    """What a block that gets nowhere waits for, as far as its reads tell."""
    machine = session.machine
    block = machine.block
    watches = tuple(Watchpoint(space, *_GLOBAL, block, reads=True, writes=False) for space in ("global", "shared"))
    names: list[str] = []
    with machine.returning() as start:
        for _ in range(_POLLS):
            stop = machine.bare_run(Conditions(watches=watches, until=start + _LONGEST))
            if stop.reason != "watch":
                break
            names.append(session.arrays.name("shared" if stop.watch else "global", stop.address))
    polled = ", ".join(list(dict.fromkeys(names))[:3])
    words = f"block {session.coordinates()} gets nowhere"
    words += f": it reads {polled} again and again, and nothing changes" if polled else ": an endless loop"
    x, y, z = session.grid
    if block + 1 < x * y * z:
        words += "; blocks run one after the other here, so what a later block would do does not happen"
    return words
