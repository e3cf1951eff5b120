"""Where to look first: how suspicious each line of the source is, from what one failing run showed.

Evidence marks lines: findings of checks, departures of provenance, where the run ended. What the marked lines depend on
is suspicious as well, less with each dependence: a wrong value is used on one line and made on another. None of this
says what the cause is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.csource.dependences import Dependences, Line
from wmmadiag.place import Place, own_place

if TYPE_CHECKING:
    from wmmadiag.provenance import ProvenanceRun


@dataclass(frozen=True, slots=True)
class Mark:
    """A line that evidence points to.

    Attributes:
        line: file and number.
        kind: "finding", "fault", "departure" (an operand or sum that is not the operation's), "consequence" of another
            departure, "value" (the first intermediate values that are not the operation's).
        detail: which check, or which kind of departure.
    """

    line: Line
    kind: str
    detail: str


def marks(findings: Iterable[Finding], traced: ProvenanceRun | None, fault: Place | None) -> tuple[Mark, ...]:
    """The lines that a failing run's evidence points to, each with every reason."""
    found: list[Mark] = []
    for one in findings:
        if one.level is Level.ADVICE:
            continue
        for place in (one.place, one.other):
            if place is not None and place.line:
                found.append(_mark(place, "finding", one.check))
    if fault is not None and fault.line:
        found.append(_mark(fault, "fault", ""))
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


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What evidence says of lines.

    Attributes:
        nearest: kind of mark → line → dependences between it and the nearest such mark (0: marked itself).
    """

    nearest: Mapping[str, Mapping[Line, int]]

    def of(self, line: Line) -> Mapping[str, int]:
        """Kind of mark → how many dependences behind one a line is; without those that it is not behind."""
        return {kind: far[line] for kind, far in self.nearest.items() if line in far}


def suspicion(found: Iterable[Mark], dependences: Dependences) -> Suspicion:
    """How far each line is behind the marks of each kind."""
    kinds: dict[str, list[Line]] = {}
    for mark in found:
        kinds.setdefault(mark.kind, []).append(mark.line)
    return Suspicion({kind: dependences.distances(lines) for kind, lines in kinds.items()})
