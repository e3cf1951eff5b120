"""Accesses that met without order: where each stands, seen from the function that makes or calls for both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from wmmadiag.checks.finding import Finding
from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.dependences import Dependences
from wmmadiag.csource.nodes import ancestors, at, field
from wmmadiag.csource.tree import Source
from wmmadiag.place import Place, own_place
from wmmadiag.subject.bench import CaseRun

if TYPE_CHECKING:
    from tree_sitter import Node

_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:<[^(]*>)?\s*(?:\(|$)")


def ordered_by(first: CaseRun, mended: Iterable[CaseRun]) -> list[Finding]:
    """The races of a run that none of the mended ones has."""
    kept = {(one.check, one.kind) for run in mended for one in run.findings}
    return [one for one in first.findings if one.check == "races" and (one.check, one.kind) not in kept]


def sides(found: Finding) -> tuple[Place, Place]:
    """Both accesses of a race, each as a line of the innermost function that both stand in or are called from."""
    other = found.other if found.other is not None else found.place
    mine, theirs = (list(own_place(place).frames())[::-1] for place in (found.place, other))
    for one, two in zip(mine, theirs, strict=False):
        if (one.file, one.line) != (two.file, two.line):
            return one, two
    depth = min(len(mine), len(theirs)) - 1
    return mine[depth], theirs[depth]


def waiting(races: Sequence[Finding], line: tuple[str, int], function: str) -> Place | None:
    """Of accesses that a change puts in order, the one that has to wait, as a line of the function that both stand in.

    Of two on one side of the change, the next round of a loop brings the first one back: that is soonest. Else it is
    the one behind the change. Where the change stands in what is called for the earlier access, both are other lines of
    the caller, and the later one has to wait.

    Args:
        line: of the change; `function`: the name of the one that it stands in.
    """
    called, carried, crossed = list[Place](), list[Place](), list[Place]()
    for found in races:
        first, last = sorted(sides(found), key=lambda place: place.line)
        if _plain(first.function) not in ("", function):
            called.append(last)
        elif first.line <= line[1] < last.line:
            crossed.append(last)
        else:
            carried += first, last
    listed = called or carried or crossed
    others = {(one.file, one.line) for one in listed if one.line} - {line}
    return Place(*min(others)) if others else None


def homes(findings: Iterable[Finding]) -> frozenset[str]:
    """The names of these functions, of all races among some findings."""
    places = (sides(one)[0] for one in findings if one.check == "races")
    return frozenset(name for place in places if (name := _plain(place.function)))


def function_at(sources: Mapping[str, Source], file: str, start: int) -> str:
    """The name of the function whose body holds a byte, or of the variable that keeps that lambda; "" for none."""
    around = lambda_at(sources[file], start)
    name = field(around.parent, "declarator") if around is not None and around.parent is not None else None
    if name is not None:
        return sources[file].text(name)
    bodies = ((one.name, one.body) for one in declarations(sources[file]).functions if one.body is not None)
    return next((name for name, body in bodies if body.start_byte <= start < body.end_byte), "")


def lambda_at(source: Source, start: int) -> Node | None:
    """The innermost lambda that a variable keeps and whose body holds a byte."""
    found = (one for one in ancestors(at(source.root, start)) if one.type == "lambda_expression")
    kept = (one for one in found if one.parent is not None and one.parent.type == "init_declarator")
    return next((one for one in kept if one.start_byte < start), None)


def through_two_pointers(findings: Iterable[Finding], sources: Mapping[str, Source]) -> bool:
    """Whether accesses met that the source makes through different pointers into one memory: then it may be the
    pointers that are wrong, whose parts should not overlap, as well as the order."""
    known = Dependences(sources)
    return any(
        known.by_different_pointers(_lines(one.place), _lines(one.other)) for one in findings if one.other is not None
    )


def _lines(place: Place) -> Iterator[tuple[str, int]]:
    return ((one.file, one.line) for one in own_place(place).frames())


def _plain(function: str) -> str:
    """The name in a demangled signature, without scopes, template arguments and parameters."""
    found = _NAME.search(function)
    return found[1] if found is not None else ""
