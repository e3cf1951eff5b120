"""What a variable held before a statement that sets it, where one after that was meant to use it."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, Text, in_place_of, indent
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_FARTHEST = 4


@operator
def before(program: Program) -> Iterator[Draft]:
    """In a statement soon after one that sets `x` from itself, the `x` from before it, kept under a name of its own."""
    for one in program.statements:
        target = _set(one)
        if target is None or not one.braced or one.unit.macro:
            continue
        for later in one.block[one.index + 1 : one.index + 1 + _FARTHEST]:
            uses = [part for part in later.all_parts() if part.text == target.text]
            if any(part.assigned for part in uses):
                break
            if uses:
                yield _kept(one, target, uses)


def _kept(one: Statement, target: Expression, uses: list[Expression]) -> Draft:
    name = "before_" + "".join(letter for letter in target.text if letter.isalnum() or letter == "_")
    declared = one.unit.edit(one.start, one.start, f"const auto {name} = {target.text};\n{indent(one)}")
    edits = (declared, *(in_place_of(part, Text(name)) for part in uses))
    line = one.unit.source.place(one.node).line
    return Draft(edits, "static", uses[0].role, f"{target.text} as it was before line {line}")


def _set(one: Statement) -> Expression | None:
    """What a statement, which is one assignment, sets from what it held."""
    whole = one.expression
    if whole is None or whole.kind != "assignment" or not whole.operands[0].type.arithmetic:
        return None
    target, value = whole.operands[0], whole.operands[1]
    itself = whole.operator != "=" or any(part.text == target.text for part in value.under())
    plain = target.kind in ("name", "member", "subscript")
    return target if itself and plain else None
