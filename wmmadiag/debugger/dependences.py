"""From a source line to the lines that it depends on: what `why` lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wmmadiag.errors import ConfigurationError
from wmmadiag.place import Place
from wmmadiag.provenance.model import Stage

if TYPE_CHECKING:
    from wmmadiag.debugger.session import Session

_DEEPEST = 50


@dataclass(frozen=True, slots=True)
class DependedLine:
    """A line on which another depends: in `distance` steps through definitions, stores, loops, conditions and calls.

    `status`: of the operation's stages at the line ("fits", "departs"), "" where it has none.
    """

    line: int
    distance: int
    code: str
    status: str = ""


def behind(session: Session, places: Sequence[Place], depth: int = 2) -> tuple[DependedLine, ...]:
    """The lines that a line depends on, the nearest first: the first of the places; the others count as one step away.

    Through definitions, stores, loops, conditions, calls and callers, and through conditions under which a thread left
    the function before.

    Raises:
        ConfigurationError: the places have no source that can be read.
    """
    file = places[0].file if places else ""
    if file not in session.declared.sources:
        raise ConfigurationError("there is no source line here", hint="go to one first")
    start, others = (file, places[0].line), [(place.file, place.line) for place in places[1:]]
    stages = [stage for stage in session.known_stages if stage.place.file == file]
    right = {(file, stage.place.line) for stage in stages if exonerates(stage)} - {start, *others}
    depth = min(depth, _DEEPEST)
    found = session.declared.dependences.distances([start], depth, right)
    for line, distance in session.declared.dependences.distances(others, depth - 1, right).items():
        found[line] = min(found.get(line, depth + 1), distance + 1)
    text = session.lines.text(file)
    status = {stage.place.line: stage.status for stage in stages if stage.status != "unknown"}
    status |= {stage.place.line: "departs" for stage in stages if stage.status == "departs"}
    # Of lines that are equally far, those that are known to be right come last.
    rows = sorted((distance, status.get(line) == "fits", line) for (at, line), distance in found.items() if at == file)
    return tuple(
        DependedLine(line, distance, text[line - 1].strip(), status.get(line, ""))
        for distance, _, line in rows
        if line != start[1] and line <= len(text)
    )


def exonerates(stage: Stage) -> bool:
    """Whether all values of a line are right beyond doubt, and with them all that they were made of.

    Of scores that a multiplication left, where they are the product times 1, the scale or log2(e). Any other factor,
    and a factor per row of weights and sums, is a reading that a later line may contradict; what is stored may have
    been selected, and which elements are masked is no matter of their values.
    """
    known = stage.status == "fits" and not stage.partial and stage.departing == 0
    return known and stage.what == "result of scores" and not stage.reading[:1].isdigit()
