"""Where to look first: how suspicious each line of the source is, from what one failing run showed.

Evidence marks lines: findings of checks, departures of provenance, where the run ended. What the marked lines depend on
is suspicious as well, less with each dependence: a wrong value is used on one line and made on another. What is wrong
of the numbers says of which kind a change may be. None of this says what the cause is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.csource.dependences import Dependences, Line
from wmmadiag.place import Place, own_place
from wmmadiag.subject.bench import CaseRun

if TYPE_CHECKING:
    from wmmadiag.provenance import ProvenanceRun


_MOST = 0.5
"""Share of wrong elements from which on most are."""
_NEAR = 2
"""Dependences that are followed from what one kind of departure or one check points to."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A line that evidence points to."""

    line: Line  # file and number
    # "finding", "fault", "departure" (an operand or sum that is not the operation's), "consequence" of another
    # departure, "value" (the first intermediate values that are not the operation's)
    kind: str
    detail: str  # which check, or which kind of departure


def marks(findings: Iterable[Finding], traced: ProvenanceRun | None, fault: Place | None) -> tuple[Mark, ...]:
    """The lines that a failing run's evidence points to, each with every reason."""
    found: list[Mark] = []
    for one in findings:
        if one.level is Level.ADVICE:
            continue
        for place in (one.place, one.other):
            if place is not None and place.line:
                found.append(_mark(place, "finding", one.check))
    own = own_place(fault) if fault is not None else None
    for place in own.frames() if own is not None else ():  # a wrapper's callers say which of its calls it was
        if place.line:
            found.append(Mark((place.file, place.line), "fault", ""))
    for seen in traced.disagreements if traced is not None else ():
        kind = "departure" if seen.because_of is None else "consequence"
        found.append(_mark(seen.place, kind, seen.kind))
        if seen.other is not None and seen.other.line:
            found.append(_mark(seen.other, "consequence", seen.kind))
    for stage in traced.stages if traced is not None else ():
        if stage.status == "departs":
            found.append(_mark(stage.place, "value", stage.what))
            break
    return tuple(dict.fromkeys(found))


def _mark(place: Place, kind: str, detail: str) -> Mark:
    own = own_place(place)
    return Mark((own.file, own.line), kind, detail)


def pattern(run: CaseRun) -> tuple[str, ...]:
    """Words for what is wrong of a run's numbers: how much, of what kind, and in which part of the axes."""
    if run.verdict is None:
        return ("unfinished",)
    words: list[str] = []
    for seen in run.verdict.observations:
        if not seen.wrong:
            continue
        share = seen.wrong / max(1, seen.elements)
        words.append("all wrong" if share == 1 else "most wrong" if share > _MOST else "some wrong")
        kinds = {"unwritten": seen.unwritten, "nan": seen.nan, "inf": seen.inf}
        words += [word for word, count in kinds.items() if count]
        for axis in seen.axes[-2:]:
            if axis.wrong < axis.extent:
                ends = {end for pair in axis.ranges for end in pair}
                whole = len(axis.ranges) == 1 and (0 in ends or axis.extent in ends)
                words.append("part of an axis" if whole else "indices of an axis")
    return tuple(dict.fromkeys(words)) or ("right numbers",)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What evidence says of lines."""

    # kind of mark → line → dependences between it and the nearest such mark (0: marked itself)
    nearest: Mapping[str, Mapping[Line, int]]
    details: Mapping[str, Mapping[Line, int]] = field(default_factory=dict)  # the same by the details of marks
    pattern: tuple[str, ...] = ()  # words for what is wrong of the numbers

    def of(self, line: Line) -> Mapping[str, int]:
        """Kind of mark → how many dependences behind one a line is; without those that it is not behind."""
        return {kind: far[line] for kind, far in self.nearest.items() if line in far}


def suspicion(found: Iterable[Mark], dependences: Dependences, words: tuple[str, ...] = ()) -> Suspicion:
    """How far each line is behind the marks of each kind and detail; `words`: the pattern."""
    kinds: dict[str, list[Line]] = {}
    details: dict[str, list[Line]] = {}
    for mark in found:
        kinds.setdefault(mark.kind, []).append(mark.line)
        if mark.detail:  # the first word: the others name a matrix
            details.setdefault(mark.detail.split()[0], []).append(mark.line)
    near = {detail: dependences.distances(lines, _NEAR) for detail, lines in details.items()}
    return Suspicion({kind: dependences.distances(lines) for kind, lines in kinds.items()}, near, words)
