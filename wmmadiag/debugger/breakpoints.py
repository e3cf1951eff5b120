"""Breakpoints: conditions with numbers, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from wmmadiag.debugger.conditions import ANY, Conditions
from wmmadiag.debugger.machine import Stop
from wmmadiag.debugger.position import Moment
from wmmadiag.debugger.session import Session
from wmmadiag.errors import ConfigurationError


@dataclass(slots=True)
class Breakpoint:
    """One condition to stop at."""

    number: int  # its name
    words: str  # "line 86", "watch sK[3][5]"
    conditions: Conditions  # when
    again: Callable[[Session], Conditions]  # … in another session on the same source
    temporary: bool = False  # it goes away when it is met
    enabled: bool = True  # whether it counts
    hits: int = 0  # how often it was met
    element: str = ""  # what a watch watches, or ""

    def meets(self, stop: Stop) -> bool:
        """Whether it is this one at which a run with merged conditions stopped; not for watches."""
        c = self.conditions
        here = c.block in (ANY, stop.block) and c.warp in (ANY, stop.warp)
        table = {"instruction": c.before, "nan": c.nan}.get(stop.reason, b"")
        return here and bool(table) and table[stop.pc] != 0


@dataclass(slots=True)
class Breakpoints:
    """The breakpoints of a session, by number."""

    session: Session
    all: dict[int, Breakpoint] = field(default_factory=dict)
    _next: int = 1

    def add(
        self, words: str, when: Callable[[Session], Conditions], *, temporary: bool = False, element: str = ""
    ) -> Breakpoint:
        """A new one."""
        made = Breakpoint(self._next, words, when(self.session), when, temporary, element=element)
        self.all[made.number] = made
        self._next += 1
        return made

    def moved(self, session: Session) -> Breakpoints:
        """The same in another session on the same source."""
        points = {number: replace(one, conditions=one.again(session)) for number, one in self.all.items()}
        return Breakpoints(session, points, self._next)

    def get(self, number: int) -> Breakpoint:
        """One by its number.

        Raises:
            ConfigurationError: there is none.
        """
        if number not in self.all:
            known = ", ".join(map(str, self.all)) or "none"
            raise ConfigurationError(f"there is no breakpoint {number}", hint=f"there are: {known}")
        return self.all[number]

    def delete(self, numbers: Sequence[int]) -> int:
        """Delete some, or without numbers all; how many."""
        doomed = [self.get(number).number for number in numbers] or list(self.all)
        for number in doomed:
            self.all.pop(number, None)
        return len(doomed)

    def enabled(self) -> list[Breakpoint]:
        """Those that count."""
        return [one for one in self.all.values() if one.enabled]

    def run(self) -> tuple[Moment, Breakpoint | None]:
        """Go on to the next one that is met, or to the end."""
        active = self.enabled()
        owners = [one for one in active for _ in one.conditions.watches]
        while True:
            stop = self.session.go(_merged(active))
            if stop.reason not in ("instruction", "watch", "nan"):
                return self.session.moment, None
            if stop.reason == "watch":
                return self.session.moment, self._met(owners[stop.watch])
            for one in active:
                if one.meets(stop):
                    return self.session.moment, self._met(one)

    def back(self) -> Moment:
        """Back to the last time one was met, or to the beginning."""
        return self.session.reverse_continue(*(one.conditions for one in self.enabled()))

    def _met(self, one: Breakpoint) -> Breakpoint:
        one.hits += 1
        if one.temporary:
            self.all.pop(one.number, None)
        return one


def _merged(points: Sequence[Breakpoint]) -> Conditions:
    """One condition that is met where any of them is, and maybe elsewhere (`Breakpoint.meets` tells)."""
    if not points:
        return Conditions()
    parts = [one.conditions for one in points]
    tables = [part for part in parts if part.before or part.nan]
    same = len({(part.block, part.warp) for part in tables}) == 1
    made = Conditions(
        before=_union([part.before for part in parts]),
        nan=_union([part.nan for part in parts]),
        watches=tuple(watch for part in parts for watch in part.watches),
    )
    return replace(made, block=tables[0].block, warp=tables[0].warp) if same else made


def _union(tables: Sequence[bytes]) -> bytes:
    used = [table for table in tables if table]
    return bytes(map(max, *used)) if len(used) > 1 else used[0] if used else b""
