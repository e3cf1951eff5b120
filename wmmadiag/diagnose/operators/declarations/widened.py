"""What is kept in half precision kept in single precision, wherever it goes."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource.nodes import field
from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.operators.cuda_names import FILL, LOAD, STORE
from wmmadiag.diagnose.operators.declarations.fragment import arguments
from wmmadiag.diagnose.operators.making import Draft, in_place_of, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_HALVES = frozenset({"half", "__half"})
_TO_SINGLE, _TO_HALF = "__half2float", frozenset({"__float2half", "__float2half_rn", "half", "__half"})


@operator
def widened(program: Program) -> Iterator[Draft]:
    """`float` for `half`: an accumulator, the arrays that it is stored in and loaded from, the accumulators that these
    hold, and so on; conversions of their elements go."""
    declared = {name: edit for one in program.statements for name, edit in _halves(one)}
    joined = {name: {name} for name in declared}
    for one in program.all_expressions():
        if one.kind == "call" and one.operator in (LOAD, STORE) and len(one.operands) > 1:
            ends = [next((name for name in sorted(part.names) if name in declared), "") for part in one.operands[:2]]
            if all(ends):
                both = joined[ends[0]] | joined[ends[1]]
                joined.update(dict.fromkeys(both, both))
    for names in {id(some): some for some in joined.values()}.values():
        edits = [declared[name] for name in sorted(names)]
        for one in program.all_expressions():
            edits += _converted(one, names)
        edits = sorted(dict.fromkeys(edits), key=lambda edit: (edit.file, edit.start))
        yield Draft(tuple(edits), "static", "element type", f"float for half of {', '.join(sorted(names))}")


def _halves(one: Statement) -> Iterator[tuple[str, TextEdit]]:
    """An array of halves, or an accumulator of halves, that a statement declares alone, and the edit of its type."""
    if one.kind != "declaration" or len(one.declares) != 1 or one.unit.macro:
        return
    variable, node = one.declares[0], field(one.node, "type")
    if node is not None and variable.dimensions and one.unit.source.text(node) in _HALVES:
        yield variable.name, one.unit.edit(node.start_byte, node.end_byte, "float")
    for parts in arguments(one):
        texts = [one.unit.source.words(part) for part in parts]
        if len(texts) > 4 and texts[0].endswith("accumulator") and texts[4] in _HALVES:
            yield variable.name, one.unit.edit(parts[4].start_byte, parts[4].end_byte, "float")


def _converted(one: Expression, names: set[str]) -> Iterator[TextEdit]:
    """The edits that leave out a conversion of an element of some arrays or fragments, or of what they are set to."""
    if one.kind != "call" or len(one.operands) != 1 or (one.parent is None and one.operator != _TO_SINGLE):
        return
    inner, around = one.operands[0], one.parent
    if one.operator == _TO_SINGLE and inner.base("subscript", "member").text in names:
        yield in_place_of(one, text_of(inner))
    elif one.operator in _TO_HALF and around is not None:
        fills = around.kind == "call" and around.operator == FILL and one.number == 1
        sets = around.kind == "assignment" and one.number == 1
        if (fills or sets) and around.operands[0].base("subscript", "member").text in names:
            yield in_place_of(one, text_of(inner))
