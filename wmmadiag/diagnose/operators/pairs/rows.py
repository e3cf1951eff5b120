"""One of several statements in a row that do the same for different names, made as the others are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.renaming import difference, with_parts

_FARTHEST = 3
_NAME = re.compile(r"[A-Za-z_]\w*")


@operator
def rows(program: Program) -> Iterator[Draft]:
    """The value that `x = p.x + b * p.x_pitch` has beside it, with its names, for the value in `y = p.y`; of
    `p.x + b * m * n` also with one of the two sizes: a matrix of another shape begins otherwise."""
    members = {member.name for record in program.reader.types.records.values() for member in record.members}
    for one in program.statements:
        own = _made(one)
        if own is None or not one.braced:
            continue
        name, value = own
        known = {*program.names_at(one.unit, one.start), *members}
        for other in one.block[max(0, one.index - _FARTHEST) : one.index + 1 + _FARTHEST]:
            its = _made(other) if other is not one else None
            if its is None or not value.type.takes(its[1].type):
                continue
            parts = difference(its[0], name)
            text = _with(its[1].text, parts, known)
            line = other.unit.source.place(other.node).line
            if text != its[1].text and text != value.text:
                yield replaced(value, Text(text, its[1].level), f"{text}, as in line {line}")
            for product in _shorter(its[1]) if value.atom else ():
                term = Text(_with(product.text, parts, known), product.level, "*")
                yield replaced(value, binary(text_of(value), "+", term), f"plus {term.text}, nearly as in line {line}")


def _made(one: Statement) -> tuple[str, Expression] | None:
    """The name that a statement gives a value, and the value."""
    if one.kind == "declaration" and len(one.declares) == 1 and len(one.expressions) == 1:
        held = one.expressions[0]
        return (one.declares[0].name, held) if one.declares[0].value is not None and not held.fixed else None
    whole = one.expression
    if whole is None or whole.kind != "assignment" or whole.operator != "=" or whole.operands[0].kind != "name":
        return None
    return whole.operands[0].text, whole.operands[1]


def _shorter(value: Expression) -> Iterator[Text]:
    """Of a pointer and a product of several sizes: the product with one of them."""
    held = sums.terms(value) if value.type.address and value.operator == "+" else []
    if len(held) == 2 and held[0].expression.atom and len(held[1].factors) > 2:
        first, *others = held[1].factors
        yield from (binary(text_of(first), "*", text_of(size)) for size in others)


def _with(text: str, parts: Mapping[str, str], known: set[str]) -> str:
    return _NAME.sub(lambda found: _renamed(found[0], parts, known), text)


def _renamed(name: str, parts: Mapping[str, str], known: set[str]) -> str:
    """A name with its parts renamed, where there is one of that name."""
    made = with_parts(name, parts)
    return made if made in known else name
