"""What a campaign found, as numbers and groups: made of results one by one, in memory that does not grow with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, repeat

from wmmadiag.campaign.points import Point
from wmmadiag.campaign.work import PointResult
from wmmadiag.subject.card import Expression

MOST_VALUES = 64
"""Values of an axis that a map shows; numbers that are more stand in ranges, each up to twice its first; of names that
are more there is no map."""
MOST_FAILURES = 2000
"""Failing cases that a report lists; all are in the journal."""

_TO = "–"

FailureGroup = tuple[str, str, tuple[str, ...]]
"""Failures that are one until a diagnosis says otherwise: a subject, its variant, and what it fails with."""
MapCell = tuple[str, str, str, str]
"""Two axes, each with a value."""
IsKnown = Callable[[PointResult], bool]
"""Whether a baseline accepts a failure."""


@dataclass(slots=True)
class Failures:
    """Cases that fail alike."""

    count: int  # how many; accepted: how many of them a baseline accepts
    smallest: PointResult  # of them, those that nobody accepts first, the one with the fewest warp instructions
    accepted: int = 0
    new: bool = False  # whether nobody accepts that


@dataclass(slots=True)
class Tally:
    """All results so far."""

    statuses: Counter[str] = field(default_factory=Counter)  # cases by status, "accepted" for failures that are known
    subjects: dict[str, Counter[str]] = field(default_factory=dict)  # likewise, by subject
    groups: dict[FailureGroup, Failures] = field(default_factory=dict)  # failures by what they are
    # cells: cases by two axes' values; failing: of these, failures that nobody accepts
    cells: Counter[MapCell] = field(default_factory=Counter)
    failing: Counter[MapCell] = field(default_factory=Counter)
    listed: list[PointResult] = field(default_factory=list)  # failing cases that nobody accepts, the first so many
    unaccepted: int = 0  # of all cases, those
    # instructions, seconds: of all runs
    instructions: int = 0
    seconds: float = 0.0
    _values: dict[str, set[str]] = field(default_factory=dict)
    _ranges: set[str] = field(default_factory=set)  # axes whose values stand in ranges

    def add(self, results: Iterable[PointResult], known: IsKnown = lambda _: False) -> None:
        """Count cases: a hundred at once cost a quarter of what they cost one by one."""
        points, failing = [], []
        for result in results:
            points.append(result.point)
            bad = result.status != "passed"
            accepted = bad and known(result)
            if bad:
                self._failed(result, accepted=accepted)
            if bad and not accepted:
                failing.append(result.point)
            status = "accepted" if accepted else result.status
            self.statuses[status] += 1
            self.subjects.setdefault(result.point.subject, Counter())[status] += 1
            self.instructions += result.instructions
            self.seconds += result.seconds
        self._map(points, self.cells)
        self._map(failing, self.failing)

    def _failed(self, result: PointResult, *, accepted: bool) -> None:
        group = group_of(result)
        known = self.groups.get(group)
        if known is None:
            known = self.groups[group] = Failures(0, result, new=not accepted)
        known.count += 1
        known.accepted += accepted
        if (accepted, cost(result)) < (not known.new, cost(known.smallest)):
            known.smallest, known.new = result, not accepted
        if not accepted:
            self.unaccepted += 1
            if len(self.listed) < MOST_FAILURES:
                self.listed.append(result)

    def _map(self, points: Iterable[Point], cells: Counter[MapCell]) -> None:
        alike: dict[tuple[str, ...], list[tuple[str, ...]]] = {}  # values by axes: those of one subject
        for point in points:
            axes, values = zip(*axes_of(point), strict=True)
            alike.setdefault(axes, []).append(values)
        for axes, rows in alike.items():
            columns = list(zip(axes, zip(*rows, strict=True), strict=True))
            kept = [(axis, column) for axis, column in columns if self._shown(axis, column)]
            shown = [(a, tuple(map(in_range, column)) if a in self._ranges else column) for a, column in kept]
            for (first, values), (second, others) in combinations(shown, 2):
                cells.update(zip(repeat(first), values, repeat(second), others, strict=False))

    def _shown(self, axis: str, column: Iterable[str]) -> bool:
        values = self._values.setdefault(axis, set())
        if axis in self._ranges:
            values.update(map(in_range, column))
        elif len(values) <= MOST_VALUES:
            values.update(column)
            if len(values) > MOST_VALUES and all(map(_is_number, values)):
                self._in_ranges(axis)
        return axis in self._ranges or len(values) <= MOST_VALUES

    def _in_ranges(self, axis: str) -> None:
        """From here on the axis has ranges, and what was counted by its values is."""
        self._ranges.add(axis)
        self._values[axis] = set(map(in_range, self._values[axis]))
        for cells in (self.cells, self.failing):
            for (a, x, b, y), count in [item for item in cells.items() if axis in (item[0][0], item[0][2])]:
                del cells[a, x, b, y]
                cells[a, in_range(x) if a == axis else x, b, in_range(y) if b == axis else y] += count

    def places(self, point: Point) -> Iterator[tuple[str, str]]:
        """A point's value, or its range, on each axis."""
        for axis, value in axes_of(point):
            yield axis, in_range(value) if axis in self._ranges else value

    def axes(self) -> dict[str, list[str]]:
        """Axes of more than one value that a map can show, with their values in order."""
        return {
            axis: sorted(values, key=_in_order)
            for axis, values in self._values.items()
            if len(values) > 1 and (axis in self._ranges or len(values) <= MOST_VALUES)
        }

    @property
    def cases(self) -> int:
        """All that were judged."""
        return sum(self.statuses.values())

    @property
    def exit_code(self) -> int:
        """As a check's: 1 a kernel is wrong, then 2, then 3; nothing judged is 2."""
        for status, code in (("failed", 1), ("error", 2), ("undecided", 3)):
            if self.statuses[status]:
                return code
        return 0 if self.cases else 2


def group_of(result: PointResult) -> FailureGroup:
    """Which failures it is counted with."""
    return result.point.subject, result.point.variant, result.failures


def cost(result: PointResult) -> tuple[int, str]:
    """What makes one failing case a better example than another; its name where that says nothing."""
    return result.instructions or 1 << 62, result.point.name()


def axes_of(point: Point) -> Iterator[tuple[str, str]]:
    """A point's value on each axis, as text."""
    yield "subject", point.subject
    yield "architecture", point.arch
    yield "variant", point.variant
    yield "case", point.base
    sizes: Mapping[str, Expression] = point.sizes
    for name, value in sizes.items():
        yield name, str(value)
    yield "inputs", point.inputs or "the card's"
    yield "schedules", str(point.schedules)
    yield "displaced", str(point.displaced)
    yield "seed", str(point.seed)


@lru_cache(maxsize=4096)
def in_range(value: str) -> str:
    """The range of a number: "64–127"."""
    size = int(float(value.partition(_TO)[0]))
    first = 1 << size.bit_length() - 1 if size > 0 else size
    return f"{first}{_TO}{2 * first - 1}" if first > 1 else str(first)


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _in_order(value: str) -> tuple[int, float, str]:
    first = value.partition(_TO)[0]
    return (0, float(first), value) if _is_number(first) else (1, 0.0, value)
