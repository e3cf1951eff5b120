"""A piece of memory set to a constant: the piece after it, or before it, too."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.conditions.guard import stored
from wmmadiag.diagnose.operators.making import Draft, Text, binary, inserted_after, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def piece_further(program: Program) -> Iterator[Draft]:
    """`*(uint4*)(p + 8) = 0;` after `*(uint4*)p = 0;` of halves: a piece that is set to the same for all threads, once
    more a piece further or nearer, where the block sets no other piece of that width."""
    for one in program.statements:
        cast = _constant_piece(one)
        if cast is None or not one.braced or one.unit.macro:
            continue
        if any(_constant_piece(other) is not None for other in one.block if other is not one):
            continue
        held, kind = cast.operands[0], cast.type.of
        width = kind.name if kind is not None else ""
        element = wrapped(text_of(held), precedence.UNARY)
        size = Text(f"sizeof({width}) / sizeof(*{element})", precedence.BINARY["/"], "/")
        source = one.unit.source
        for symbol in "+-":
            place = binary(text_of(held), symbol, size)
            begin, rest = source.slice(one.start, held.whole[0]), source.slice(held.whole[1], one.end)
            copy = f"{begin}{wrapped(place, held.needs(symbol))}{rest}"
            yield inserted_after(one, copy, f"{place.text} set as well", "initial value")


def _constant_piece(one: Statement) -> Expression | None:
    """The pointer, made one to a vector of CUDA, through which a statement sets memory to the same for all threads."""
    target = stored(one)
    if target is None or target.kind != "unary" or target.operands[0].kind != "cast":
        return None
    whole, cast = one.expressions[0], target.operands[0]
    held = cast.type.of
    wide = held is not None and held.kind == "record" and held.of is not None
    return cast if wide and whole.operator == "=" and whole.operands[1].varying is False else None
