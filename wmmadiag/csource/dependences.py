"""Which lines of some sources a line depends on: where its names get their values, and what decides whether it runs.

Through definitions, stores, loops, conditions, calls, callers, constants and macros. The order of statements is looked
at only where a thread may leave before it reaches one: a name has all of its definitions. It says what is near, not
what is so.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeVar

from wmmadiag.csource.tree import Source
from wmmadiag.csource.units import CodeUnit, Key, read_units

Line: TypeAlias = tuple[str, int]
"""A file and a line of it, from 1."""
_T = TypeVar("_T")


@dataclass(slots=True)
class _Walk:
    """What was met on the way: units, and names with what was asked of them."""

    units: set[CodeUnit]
    asked: set[tuple[str, Key]]

    def first(self, what: str, keys: Iterable[Key]) -> list[Key]:
        """Those of which this is asked for the first time."""
        found = [key for key in keys if (what, key) not in self.asked]
        self.asked.update((what, key) for key in found)
        return found


class Dependences:
    """The dependences between the lines of some sources.

    Args:
        sources: file → its tree.
    """

    def __init__(self, sources: Mapping[str, Source]) -> None:
        read = read_units(sources)
        self._units, self._callees, self._stands_for = read.units, read.callees, read.stands_for

    def distances(self, marks: Iterable[Line], most: int = 8, known: Container[Line] = ()) -> dict[Line, int]:
        """Line → how many dependences it is behind the nearest of some lines, which are at 0 themselves.

        A value that only has a name (`const int row = …`) is a part of the expressions that use it: what it is made of
        is as far from them as it is itself.

        Args:
            most: dependences that are followed.
            known: lines whose values are right: what these are made of is not followed, only the loops and conditions
                around them, which say which values there are.
        """
        found: dict[Line, int] = {}
        front = [unit for mark in marks for unit in self._by_line.get(mark, ())]
        walk = _Walk(set(front), set())
        for step in range(most + 1):
            for unit in front:
                for line in unit.lines:
                    found.setdefault((unit.file, line), step)
            if step < most:
                front = self._further(front, walk, known)
        return found

    def beside(self, lines: Iterable[Line]) -> set[Line]:
        """The lines one dependence behind some lines or before them: where what stands there could be mended as well.

        What is made of a value, and what a condition governs, is before it.
        """
        units = [unit for line in lines for unit in self._by_line.get(line, ())]
        made = {key for unit in units for key in (*unit.defines, *unit.stores)}
        before = [
            unit for unit in self._units
            if made & {*unit.uses, *unit.places} or any(around in units for around in unit.around)
        ]  # fmt: skip
        ahead = {(unit.file, line) for unit in before for line in unit.lines}
        return ahead | set(self.distances([(unit.file, line) for unit in units for line in unit.lines], 1))

    def called_from(self, lines: Iterable[Line], names: Iterable[str] = ()) -> set[Line]:
        """The lines of the functions that some lines call, and of those that have one of some names."""
        called = {key for line in lines for unit in self._by_line.get(line, ()) for key in unit.calls}
        called |= {("", name) for name in names}
        inside = [unit for unit in self._units if unit.function is not None and unit.function.key in called]
        return {(unit.file, line) for unit in inside for line in unit.lines}

    def calling(self, lines: Iterable[Line]) -> set[Line]:
        """The lines that call the functions which some lines are in."""
        inside = {
            unit.function.key for line in lines for unit in self._by_line.get(line, ()) if unit.function is not None
        }
        return {(unit.file, line) for unit in self._units if inside & set(unit.calls) for line in unit.lines}

    def by_different_pointers(self, lines: Iterable[Line], others: Iterable[Line]) -> bool:
        """Whether some lines and some others reach the same memory, each through pointers into it of their own."""
        ways, further = [list(self._ways(some)) for some in (lines, others)]
        met = [(way, other) for way in ways for other in further if way[1] & other[1]]
        return bool(met) and not any(way[0] & other[0] for way, other in met)

    def _ways(self, lines: Iterable[Line]) -> Iterator[tuple[set[Key], set[Key]]]:
        """For each pointer that lines name: it and the pointers that it is made of, and the memory behind them."""
        units = [unit for line in lines for unit in self._by_line.get(line, ())]
        for key in {key for unit in units for key in (*unit.uses, *unit.stores, *unit.places)}:
            pointers, memory, front = set[Key](), set[Key](), [key] if key in self._stands_for else []
            while front:
                one = front.pop()
                made_of = self._stands_for.get(one, set()) - {one}
                (pointers if made_of else memory).add(one)
                front += made_of - pointers
            if pointers:
                yield pointers, memory

    def _further(self, front: Sequence[CodeUnit], walk: _Walk, known: Container[Line]) -> list[CodeUnit]:
        """The units one dependence behind those of a front that were not met before."""
        found: list[CodeUnit] = []
        open_ones = list(front)
        while open_ones:
            for one in self._behind(open_ones.pop(), walk, known):
                if one not in walk.units:
                    walk.units.add(one)
                    found.append(one)
                    if one.names:
                        open_ones.append(one)
        return found

    def _behind(self, unit: CodeUnit, walk: _Walk, known: Container[Line]) -> Iterator[CodeUnit]:
        yield from unit.around
        if any((unit.file, line) in known for line in unit.lines):
            return
        for block in unit.blocks:
            yield from (one for one in self._leaving.get((unit.file, block), ()) if one.end <= unit.start)
        for key in walk.first("place", unit.places):
            yield from self._declaring.get(key, ())
        for key in walk.first("value", unit.uses):
            yield from self._defining.get(key, ())
        if unit.function is not None and not unit.function.kernel:
            for key in walk.first("callers", (unit.function.key,)):
                yield from self._calling.get(key, ())
        for key in walk.first("results", unit.calls):
            for callee in self._callees.get(key, ()):
                yield from callee.results

    @cached_property
    def _by_line(self) -> dict[Line, list[CodeUnit]]:
        return _grouped(((unit.file, line), unit) for unit in self._units for line in unit.lines)

    @cached_property
    def _leaving(self) -> dict[tuple[str, int], list[CodeUnit]]:
        """File and block → the conditions in it under which a thread leaves it."""
        return _grouped(((unit.file, unit.blocks[0]), unit) for unit in self._units if unit.leaves and unit.blocks)

    @cached_property
    def _calling(self) -> dict[Key, list[CodeUnit]]:
        return _grouped((key, unit) for unit in self._units for key in unit.calls)

    @cached_property
    def _defining(self) -> dict[Key, list[CodeUnit]]:
        """Name → the units that give it a value, or write what it stands for."""
        stores = _grouped((key, unit) for unit in self._units for key in unit.stores)
        # A pointer is declared after what it is made of: the last first.
        for key in reversed(self._stands_for):
            for other in self._stands_for[key]:
                stores.setdefault(other, []).extend(stores.get(key, ()))
        keys = dict.fromkeys([*self._declaring, *stores])
        return {key: list(dict.fromkeys([*self._declaring.get(key, ()), *stores.get(key, ())])) for key in keys}

    @cached_property
    def _declaring(self) -> dict[Key, list[CodeUnit]]:
        """Name → its declaration, and for a pointer what points it elsewhere."""
        return _grouped((key, unit) for unit in self._units for key in unit.defines)


def _grouped(pairs: Iterable[tuple[_T, CodeUnit]]) -> dict[_T, list[CodeUnit]]:
    made: dict[_T, list[CodeUnit]] = {}
    for key, unit in pairs:
        made.setdefault(key, []).append(unit)
    return made
