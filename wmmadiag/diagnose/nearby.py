"""Changes in the order in which they stand to what checks found."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from wmmadiag.csource.dependences import Dependences, Line
from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.meeting import function_at, homes, sides
from wmmadiag.diagnose.names import puts_in_order
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.suspicion import marks
from wmmadiag.subject.bench import CaseRun

if TYPE_CHECKING:
    from tree_sitter import Node


def at_findings(order: Sequence[Ranked], run: CaseRun, sources: Mapping[str, Source]) -> list[Ranked]:
    """Changes of the lines that findings are about, or that call for them, first, then those beside them: nothing else
    says what is wrong.

    Where they are about the order of accesses, two changes that put accesses in order come for each other one, those of
    the function that makes both accesses, or calls for both, first.
    """
    said = {mark.line for mark in marks(run.findings, None, None)}
    races = [one for one in run.findings if one.check == "races"]
    said |= {(place.file, place.line) for one in races for place in sides(one)}
    beside = Dependences(sources).beside(said)
    met = homes(races)

    def far(one: Ranked) -> int:
        lines = _between(one, sources)
        return 0 if lines & said else 1 if lines & beside else 2

    groups: dict[int, list[Ranked]] = {0: [], 1: [], 2: []}
    for one in order:
        groups[far(one)].append(one)
    return [one for some in groups.values() for one in (_orders_first(some, met, sources) if races else some)]


def _orders_first(some: Sequence[Ranked], met: Set[str], sources: Mapping[str, Source]) -> Iterator[Ranked]:
    def apart(one: Ranked) -> bool:
        edit = one.change.edits[0]
        return function_at(sources, edit.file, edit.start) not in met

    orders = sorted((one for one in some if puts_in_order(one.change)), key=apart)
    others = iter([one for one in some if not puts_in_order(one.change)])
    for number, one in enumerate(orders):
        yield one
        if number % 2:
            yield from itertools.islice(others, 1)
    yield from others


def _between(one: Ranked, sources: Mapping[str, Source]) -> set[Line]:
    """The line of a change; of one that only puts something in, those of the statements before and after it."""
    edit = one.change.edits[0]
    if one.change.kind != "insertion":
        return {one.line}
    source = sources[edit.file]
    code = source.code.code
    before, after = len(code[: edit.start].rstrip()) - 1, len(code) - len(code[edit.start :].lstrip())
    nodes = [source.root.descendant_for_byte_range(at, at + 1) for at in (before, after) if 0 <= at < len(code)]
    lines = {one.line}
    for number, node in enumerate(nodes):
        while node is not None and node.parent is not None and _ends_alike(node, node.parent, number == 0):
            node = node.parent
        if node is not None:
            lines |= {(edit.file, line + 1) for line in range(node.start_point[0], node.end_point[0] + 1)}
    return lines


def _ends_alike(node: Node, around: Node, last: bool) -> bool:
    return node.end_byte == around.end_byte if last else node.start_byte == around.start_byte
