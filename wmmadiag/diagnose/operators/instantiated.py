"""What of a source the compiler made nothing of: other overloads and specialisations, branches that it did not take.

What is not in the program cannot be what is wrong with it. Whatever chooses the overload or the branch is another
place, and stays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from wmmadiag.csource.declarations import Function
from wmmadiag.csource.dependences import Line
from wmmadiag.csource.nodes import descendants

if TYPE_CHECKING:
    from tree_sitter import Node

    from wmmadiag.diagnose.operators.model import Unit

Span = tuple[int, int]
"""Offsets in a unit's tree, end exclusive."""


class Instantiated:
    """The lines that the compiler made instructions of.

    Args:
        lines: those, by the path that messages show; none where it is not known.
        kernels: where none of them has a line, the lines are of another text (`#line`), and nothing is known.
    """

    def __init__(self, lines: Iterable[Line], kernels: Iterable[tuple[Unit, Function]]) -> None:
        self._lines: dict[str, list[int]] = {}
        for file, number in sorted(set(lines)):
            self._lines.setdefault(file, []).append(number)
        if not any(self._made(unit.file, one.node) for unit, one in kernels):
            self._lines = {}

    def chosen(self, named: list[tuple[Unit, Function]]) -> list[tuple[Unit, Function]]:
        """Of functions of one name those that are in the program, and those that the compiler runs; a function that has
        its name alone is told by its call."""
        if not self._lines or len(named) == 1:
            return named
        return [(unit, one) for unit, one in named if "constexpr" in one.words or self._made(unit.file, one.node)]

    def left_out(self, unit: Unit, function: Function) -> list[Span]:
        """The branches of `if constexpr` that were not taken, in the order of the text, none inside another."""
        if function.body is None or not self._made(unit.file, function.node):
            return []
        found = list[Span]()
        for node in descendants(function.body, "if_statement"):
            branches = list(_branches(node)) if any(one.type == "constexpr" for one in node.children) else []
            absent = [one for one in branches if not self._made(unit.file, one)]
            if len(absent) < max(2, len(branches)):  # of two that left nothing one was taken
                found += [(one.start_byte, one.end_byte) for one in absent]
        found.sort()
        return [one for number, one in enumerate(found) if not any(other[1] >= one[1] for other in found[:number])]

    def _made(self, file: str, node: Node) -> bool:
        lines = self._lines.get(file, [])
        at = bisect_left(lines, node.start_point[0] + 1)
        return at < len(lines) and lines[at] <= node.end_point[0] + 1


def _branches(node: Node) -> Iterator[Node]:
    """What an `if` runs where its condition holds, and where not."""
    taken = node.child_by_field_name("consequence")
    if taken is not None:
        yield taken
    behind = node.child_by_field_name("alternative")
    if behind is not None:
        yield behind.named_children[-1] if behind.named_children else behind


def within(spans: Iterable[Span], start: int, end: int) -> bool:
    """Whether a part of a text lies in one of some others."""
    return any(first <= start and end <= last for first, last in spans)


def outside(spans: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """What is left of a part of a text without some others in it, which are in its order."""
    for first, last in spans:
        yield start, first
        start = last
    yield start, end
