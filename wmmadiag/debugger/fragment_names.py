"""Which fragments of the source the registers of an operation are: from the WMMA calls at its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wmmadiag.csource.nodes import arguments, called, descendants
from wmmadiag.csource.tree import Source
from wmmadiag.csource.writes import base
from wmmadiag.debugger.lines import SourceLines
from wmmadiag.place import Place

if TYPE_CHECKING:
    from tree_sitter import Node

# Operation → call → position of each operand's fragment among its arguments. (CUDA C++ Programming Guide, "Warp Matrix
# Functions")
_ARGUMENTS: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "mma": {name: {"d": 0, "a": 1, "b": 2, "c": 3} for name in ("mma_sync", "bmma_sync")},
    "wmma.load": {"load_matrix_sync": {"d": 0}},
    "wmma.store": {"store_matrix_sync": {"d": 1}},
}


@dataclass(frozen=True, slots=True)
class FragmentUse:
    """A fragment of the source in one operation."""

    pc: int  # of the operation
    letter: str  # operand: "a" to "d" (of a load or store "d")
    name: str  # of the variable
    text: str  # as the call has it: "q_fragment[kk]"
    writes: bool  # whether the operation writes it


def fragment_uses(lines: SourceLines, sources: Mapping[str, Source]) -> tuple[FragmentUse, ...]:
    """Every fragment of every operation that a WMMA call of the source stands for.

    Args:
        sources: file → its tree.
    """
    found: list[FragmentUse] = []
    known = {name for calls in _ARGUMENTS.values() for name in calls}
    calls = {
        file: [one for one in descendants(source.root, "call_expression") if called(one) in known]
        for file, source in sources.items()
    }
    for pc, node in enumerate(lines.kernel.nodes):
        if node.op not in _ARGUMENTS:
            continue
        place = lines.places[pc]
        call = _call([one for one in calls.get(place.file, ()) if called(one) in _ARGUMENTS[node.op]], place)
        if call is None:
            continue
        given = arguments(call)
        for letter, position in _ARGUMENTS[node.op][called(call)].items():
            name = base(given[position]) if position < len(given) else None
            if name is not None:
                source = sources[place.file]
                writes = node.op == "wmma.load" or (node.op == "mma" and letter == "d")
                found.append(FragmentUse(pc, letter, source.text(name), source.words(given[position]), writes))
    return tuple(found)


def _call(calls: Sequence[Node], place: Place) -> Node | None:
    """The call at a place; of several in a line the last that begins at or before the column."""
    here = [one for one in calls if one.start_point[0] + 1 <= place.line <= one.end_point[0] + 1]
    before = [one for one in here if (one.start_point[0] + 1, one.start_point[1] + 1) <= (place.line, place.column)]
    return before[-1] if before else here[0] if here else None
