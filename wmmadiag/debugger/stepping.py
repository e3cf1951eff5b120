"""Steps of one warp, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

from wmmadiag.debugger.conditions import ANY, NAN_KINDS, Conditions
from wmmadiag.debugger.lines import BARRIERS, MULTIPLICATIONS, TENSOR
from wmmadiag.debugger.machine import Stop
from wmmadiag.debugger.position import Moment, Position
from wmmadiag.debugger.registers import nan_table
from wmmadiag.errors import ConfigurationError

# Going to places: forwards to the next one that meets a condition, back to the last one, to a time, to a block.


class Travel(Position):
    """The half of a session that goes to places."""

    def conditions(
        self,
        *,
        line: int | str | None = None,
        function: str = "",
        tensor: bool = False,
        watch: str = "",
        nan: bool = False,
        block: int | Sequence[int] | None = None,
        warp: int | None = None,
        reads: bool = False,
    ) -> Conditions:
        """Stop conditions, with arguments as for `run_to`."""
        where = ANY if block is None else self.block_index(block)
        made = Conditions(block=where, warp=ANY if warp is None else self.known_warp(warp))
        if line is not None:
            file, number = _file_and_line(line)
            made = replace(made, before=self.lines.at_line(number, file))
        elif function:
            made = replace(made, before=self.lines.at_function(function))
        elif tensor:
            made = replace(made, before=self._table_of(MULTIPLICATIONS, "multiplies matrices on tensor cores"))
        elif watch:
            made = replace(made, watches=(self.arrays.element(watch).watch(block=where, reads=reads),))
        elif nan:
            made = replace(made, nan=nan_table(self.target.kernel.kernel, NAN_KINDS))
        return made

    def go(self, conditions: Conditions) -> Stop:
        """Run on until a condition is met; `moment` says where that is."""
        stop = self.machine.run(conditions, interruptible=True)
        self.moment = self._moment(stop)
        return stop

    def reverse_continue(self, *conditions: Conditions, **wanted: Any) -> Moment:
        """Back to the last time at which a condition was met; keywords as for `run_to`; none: to the beginning."""
        chosen = list(conditions) + ([self.conditions(**wanted)] if wanted else [])
        now = self.time
        found: Stop | None = None
        with self._kept():
            for one in chosen:
                stop = self.machine.last_before(one, now, found.time if found is not None else 0)
                if stop is not None and (found is None or stop.time >= found.time):
                    found = stop
        if found is None:
            self.machine.seek(0)
            self.moment = self._at_next("moved", "the launch begins; nothing of that was met before")
            return self.moment
        self.machine.seek(found.time)
        self.moment = self._moment(found)
        return self.moment

    def seek(self, time: int) -> Moment:
        """Go to a time: so many warp instructions after the launch began."""
        if time < 0:
            raise ConfigurationError(f"time {time} is before the launch", hint="times count from 0")
        self.machine.seek(time)
        self.moment = self._at_next("moved", "")
        return self.moment

    def select(
        self, block: int | Sequence[int] | None = None, warp: int | None = None, lane: int | None = None
    ) -> Moment:
        """Choose whose state is looked at and who is stepped. Another block: goes to its begin."""
        if warp is not None:
            self.known_warp(warp)
        if lane is not None and not 0 <= lane < 32:
            raise ConfigurationError(f"lane {lane}: a warp has lanes 0 to 31", hint="give a lane from 0 to 31")
        words = ""
        if block is not None and (index := self.block_index(block)) != self.block:
            starts = self.machine.block_starts
            if index < len(starts):
                self.machine.seek(starts[index])
            else:
                everywhere = bytes([1]) * len(self.target.kernel.kernel.nodes)
                self.machine.run(Conditions(before=everywhere, block=index))
            words = f"blocks run in order: this is the begin of block {self.coordinates(index)}"
            self.warp = self.lane = 0
        self.warp = self.warp if warp is None else warp
        self.lane = self.lane if lane is None else lane
        self.moment = self._at_next("moved", words, self.warp)
        return self.moment

    # Inside

    def _run(self, conditions: Conditions) -> Moment:
        self.go(conditions)
        return self.moment

    @cached_property
    def _everywhere(self) -> bytes:
        return bytes([1]) * len(self.target.kernel.kernel.nodes)

    def _table_of(self, names: frozenset[str], what: str) -> bytes:
        table = self.lines.operations(names)
        if not any(table):
            raise ConfigurationError(
                f"this kernel has no instruction that {what}", hint="`wmmadiag ptx` shows those that it has"
            )
        return table


def _file_and_line(line: int | str) -> tuple[str, int]:
    if isinstance(line, int):
        return "", line
    file, _, number = line.rpartition(":")
    if not number.isdigit():
        raise ConfigurationError(f"'{line}' is no line", hint="write 86 or kernel.cu:86")
    return file, int(number)


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
