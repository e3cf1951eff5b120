"""What a campaign found, as numbers and groups: made of results one by one, in memory that does not grow with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, repeat

from wmmadiag.campaign.points import Point
from wmmadiag.campaign.work import Result
from wmmadiag.subject.card import Expression

MOST_VALUES = 64
"""Values of an axis that a map shows; one with more, of seeds for example, is no axis of a map."""
MOST_FAILURES = 2000
"""Failing cases that a report lists; all are in the journal."""

Group = tuple[str, tuple[str, ...]]
"""Failures that are one until a diagnosis says otherwise: a subject, and what it fails with."""
Cell = tuple[str, str, str, str]
"""Two axes, each with a value."""
Known = Callable[[Result], bool]
"""Whether a baseline accepts a failure."""


@dataclass(slots=True)
class Failures:
    """Cases that fail alike."""

    count: int  # how many; accepted: how many of them a baseline accepts
    smallest: Result  # of them, the one with the fewest warp instructions
    accepted: int = 0


@dataclass(slots=True)
class Tally:
    """All results so far."""

    statuses: Counter[str] = field(default_factory=Counter)  # cases by status, "accepted" for failures that are known
    subjects: dict[str, Counter[str]] = field(default_factory=dict)  # likewise, by subject
    groups: dict[Group, Failures] = field(default_factory=dict)  # failures by what they are
    # cells: cases by two axes' values; failing: of these, failures that nobody accepts
    cells: Counter[Cell] = field(default_factory=Counter)
    failing: Counter[Cell] = field(default_factory=Counter)
    listed: list[Result] = field(default_factory=list)  # failing cases
    # instructions, seconds: of all runs
    instructions: int = 0
    seconds: float = 0.0
    _values: dict[str, set[str]] = field(default_factory=dict)

    def add(self, results: Iterable[Result], known: Known = lambda _: False) -> None:
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

    def _failed(self, result: Result, *, accepted: bool) -> None:
        group = (result.point.subject, result.failures)
        known = self.groups.get(group)
        if known is None:
            known = self.groups[group] = Failures(0, result)
        known.count += 1
        known.accepted += accepted
        if cost(result) < cost(known.smallest):
            known.smallest = result
        if len(self.listed) < MOST_FAILURES and not accepted:
            self.listed.append(result)

    def _map(self, points: Iterable[Point], cells: Counter[Cell]) -> None:
        alike: dict[tuple[str, ...], list[tuple[str, ...]]] = {}  # values by axes: those of one subject
        for point in points:
            axes, values = zip(*axes_of(point), strict=True)
            alike.setdefault(axes, []).append(values)
        for axes, rows in alike.items():
            columns = zip(axes, zip(*rows, strict=True), strict=True)
            shown = [(axis, column) for axis, column in columns if self._shown(axis, column)]
            for (first, values), (second, others) in combinations(shown, 2):
                cells.update(zip(repeat(first), values, repeat(second), others, strict=False))

    def _shown(self, axis: str, column: Iterable[str]) -> bool:
        values = self._values.setdefault(axis, set())
        if len(values) <= MOST_VALUES:
            values.update(column)
        return len(values) <= MOST_VALUES

    def axes(self) -> dict[str, list[str]]:
        """Axes of more than one value that a map can show, with their values in order."""
        return {
            axis: sorted(values, key=_in_order)
            for axis, values in self._values.items()
            if 1 < len(values) <= MOST_VALUES
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


def cost(result: Result) -> tuple[int, str]:
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


def _in_order(value: str) -> tuple[int, float, str]:
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value
