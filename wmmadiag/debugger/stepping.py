"""Steps of one warp, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias

from wmmadiag.debugger.conditions import Conditions
from wmmadiag.debugger.lines import BARRIERS, MULTIPLICATIONS, TENSOR
from wmmadiag.debugger.machine import Stop
from wmmadiag.debugger.position import Moment
from wmmadiag.debugger.travel import Travel
from wmmadiag.errors import ConfigurationError

Unit: TypeAlias = Literal["line", "next", "instruction", "tensor", "fragment", "barrier"]


class Stepping(Travel):
    """The stepping half of a session."""

    def step(self, unit: Unit = "line", count: int = 1) -> Moment:
        """Let the selected warp go on by some lines, instructions, tensor-core operations or barriers.

        "line" enters inlined functions, "next" does not; "fragment" also stops at loads and stores of fragments. Other
        warps run meanwhile as they do anyway. It stops before the next one runs.
        """
        for _ in range(self._count(count)):
            if self.finished:
                break
            stop = self._advance(self._unit(unit))
            self.moment = self._moment(stop, "step")
            if stop.reason != "instruction":
                break
        return self.moment

    def reverse_step(self, unit: Unit = "line", count: int = 1) -> Moment:
        """The same, backwards: to the begin of the line, instruction or operation that the warp ran before."""
        for _ in range(self._count(count)):
            with self._kept():
                found = self._back_line(unit == "line") if unit in ("line", "next") else self._back_to(self._unit(unit))
            if not found:
                start = self.machine.block_starts[-1]
                self.machine.seek(start)
                self.moment = self._at_next("moved", "there is nothing before it in this block")
                break
            self.moment = self._at_next("step", "", self.warp)
        return self.moment

    # Inside

    def _unit(self, unit: str) -> Conditions:
        standing = self.standing()
        pc = standing.pc if standing is not None else 0
        tables: dict[str, Callable[[], bytes]] = {
            "line": lambda: self.lines.other_line(pc),
            "next": lambda: self.lines.other_line(pc, into=False),
            "instruction": lambda: self._everywhere,
            "tensor": lambda: self._table_of(MULTIPLICATIONS, "multiplies matrices on tensor cores"),
            "fragment": lambda: self._table_of(TENSOR, "works on fragments"),
            "barrier": lambda: self._table_of(BARRIERS, "is a barrier"),
        }
        if unit not in tables:
            raise ConfigurationError(f"cannot step by '{unit}'", hint=f"units: {', '.join(tables)}")
        return Conditions(before=tables[unit](), block=self.block, warp=self.warp, block_end=True)

    @staticmethod
    def _count(count: int) -> int:
        if count < 1:
            raise ConfigurationError(f"{count} steps", hint="give 1 or more; reverse-step goes back")
        return count

    def _advance(self, conditions: Conditions) -> Stop:
        """Run until the selected warp has made a step: not merely until its turn comes."""
        before = self.machine.executed(self.warp)
        while True:
            stop = self.machine.run(conditions, interruptible=True)
            if stop.reason != "instruction" or self.machine.executed(self.warp) != before:
                return stop

    def _back_to(self, conditions: Conditions) -> bool:
        stop = self.machine.last_before(conditions, self.time, self.machine.block_starts[-1])
        if stop is not None:
            self.machine.seek(stop.time)
        return stop is not None

    def _back_line(self, into: bool) -> bool:
        """To the first instruction of the line that the selected warp was in before this one."""
        standing = self.standing()
        start = self.machine.block_starts[-1]
        only = Conditions(block=self.block, warp=self.warp)
        pc = standing.pc if standing is not None else None
        table = self._everywhere if pc is None else self.lines.other_line(pc, into=into)
        now = self.time
        last = self.machine.last_before(replace(only, before=table), now, start)
        if last is None:
            self.machine.seek(now)
            return False
        earlier = self.machine.last_before(
            replace(only, before=self.lines.other_line(last.pc, into=into)), last.time, start
        )
        self.machine.seek(start if earlier is None else earlier.time)
        places = self.lines.places if into else self.lines.outer
        there = places[last.pc]
        same = ((place.file, place.line) == (there.file, there.line) for place in places)
        line = bytes(map(int, same))
        standing = self.machine.next
        if earlier is None and standing is not None and standing.warp == self.warp and line[standing.pc]:
            return True
        return self.machine.run(replace(only, before=line, until=last.time + 1)).reason == "instruction"
