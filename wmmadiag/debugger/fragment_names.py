"""Which fragments of the source the registers of an operation are: from the WMMA calls at its line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wmmadiag.debugger.lines import Lines
from wmmadiag.emulator.decoded import Decoded

if TYPE_CHECKING:
    from wmmadiag.diagnose.source.read import Call, SourceModel

# Operation → call → position of each operand's fragment among its arguments. (CUDA C++ Programming Guide, "Warp Matrix
# Functions")
_ARGUMENTS: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "mma": {name: {"d": 0, "a": 1, "b": 2, "c": 3} for name in ("mma_sync", "bmma_sync")},
    "wmma.load": {"load_matrix_sync": {"d": 0}},
    "wmma.store": {"store_matrix_sync": {"d": 1}},
}


@dataclass(frozen=True, slots=True)
class Use:
    """A fragment of the source in one operation.

    Attributes:
        pc: of the operation.
        letter: operand: "a" to "d" (of a load or store "d").
        name: of the variable.
        text: as the call has it: "q_fragment[kk]".
        writes: whether the operation writes it.
    """

    pc: int
    letter: str
    name: str
    text: str
    writes: bool


def fragment_uses(lines: Lines, models: Mapping[str, SourceModel]) -> tuple[Use, ...]:
    """Every fragment of every operation that a WMMA call of the source stands for.

    Args:
        models: file → its model.
    """
    found: list[Use] = []
    for pc, node in enumerate(lines.kernel.nodes):
        if node.op not in _ARGUMENTS:
            continue
        place = lines.places[pc]
        call = _call(models.get(place.file), place.line, place.column, node)
        if call is None:
            continue
        for letter, position in _ARGUMENTS[node.op][call.name].items():
            if position < len(call.arguments):
                text = call.arguments[position].text.strip()
                name = re.match(r"[\s(&*]*([A-Za-z_]\w*)", text)
                if name is not None:
                    writes = node.op == "wmma.load" or (node.op == "mma" and letter == "d")
                    found.append(Use(pc, letter, name[1], " ".join(text.split()), writes))
    return tuple(found)


def _call(model: SourceModel | None, line: int, column: int, node: Decoded) -> Call | None:
    """The call at a place; of several in a line the last that begins at or before the column."""
    if model is None:
        return None
    calls = [c for c in model.wmma_calls if c.name in _ARGUMENTS[node.op] and _spans(model, c, line)]
    if len(calls) < 2:
        return calls[0] if calls else None
    start = sum(len(text) + 1 for text in model.lines[: line - 1])
    before = [call for call in calls if call.name_at - start <= column - 1 or call.start - start <= column - 1]
    return before[-1] if before else calls[0]


def _spans(model: SourceModel, call: Call, line: int) -> bool:
    return call.line <= line <= model.line_of(call.end)
