"""An operand read the other way round: its layout, and which of its coordinates goes along a row, are one mistake."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.declarations.fragment import arguments, declarations
from wmmadiag.diagnose.operators.making import Draft, Text, binary, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_OTHER = {"row_major": "col_major", "col_major": "row_major"}
_LOAD = "load_matrix_sync"


@operator
def turned_operand(program: Program) -> Iterator[Draft]:
    """`row_major` and `p + d * ld + i` for `col_major` and `p + i * ld + d` of a fragment, and back; so of
    `&s[i * ld + d]`, and `&s[d][i]` for `&s[i][d]`."""
    loads = [one for one in program.expressions if one.kind == "call" and one.operator == _LOAD]
    for declared in declarations(program):
        names = {variable.name for variable in declared.declares}
        mine = [one for one in loads if len(one.operands) > 2 and names & one.operands[0].names]
        turned = [made for one in mine if (made := next(_turned(one), None)) is not None]
        if not turned or len(turned) != len(mine):
            continue
        for part in arguments(declared):
            for argument in part:
                text = declared.unit.source.words(argument)
                scope, _, plain = text.rpartition("::")
                if plain in _OTHER:
                    new = f"{scope}::{_OTHER[plain]}" if scope else _OTHER[plain]
                    layout = declared.unit.edit(argument.start_byte, argument.end_byte, new)
                    draft = several([pair for made in turned for pair in made], f"{new}, read the other way round")
                    yield Draft((layout, *draft.edits), "static", "layout", draft.note)


def _turned(load: Expression) -> Iterator[list[tuple[Expression, Text]]]:
    """What a load's address becomes where two coordinates exchange their places."""
    address, pitch = load.operands[1], load.operands[2]
    inner = address.operands[0] if address.kind == "unary" and address.operator == "&" else address
    flat = inner.operands[1] if inner.kind == "subscript" else address
    held = [term for term in sums.terms(flat) if not term.expression.type.address and not term.negative]
    for row, column in itertools.permutations(held, 2):
        factors = [part for part in row.factors if part.text != pitch.text]
        if len(factors) == len(row.factors) - 1 and pitch.text not in {part.text for part in column.factors}:
            along = text_of(factors[0])
            for part in factors[1:]:
                along = binary(along, "*", text_of(part))
            yield [
                (row.expression, along),
                (column.expression, binary(text_of(column.expression), "*", text_of(pitch))),
            ]
    if inner.kind == "subscript" and inner.operands[0].kind == "subscript":
        first, second = inner.operands[0].operands[1], inner.operands[1]
        yield [(first, text_of(second)), (second, text_of(first))]
