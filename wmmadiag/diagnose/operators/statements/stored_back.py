"""What was read from memory and changed, put back."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, inserted_after
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST = 2


@operator
def stored_back(program: Program) -> Iterator[Draft]:
    """`p[i] = x;` after the last statement of a block that changes an `x` that the block makes of `p[i]`, itself or in
    a function that is given a reference, or that reads `p[i]`."""
    for one in program.statements:
        read = [] if one.unit.macro else [(*pair, value) for pair in _made(one) for value in _places(program, pair[1])]
        for name, made, value in read:
            later = one.block[one.index + 1 :]
            if any(_changes(program, other, value.text) for other in later):
                continue
            last = next((other for other in reversed(later) if _changes(program, other, name)), None)
            if last is None and value is not made:
                last = one
            reader = next((other for other in reversed(later) if last is not None and _reads(other, value.text)), None)
            for at in {id(at): at for at in (last, reader) if at is not None}.values():
                if at.braced and at.kind not in ("return", "jump") and pools(program).visible_within(value, at, ""):
                    yield inserted_after(at, f"{value.text} = {name};", f"{name} put back", "statement")


def _made(one: Statement) -> Iterator[tuple[str, Expression]]:
    """The variables that a statement gives a value, each with the value."""
    if one.kind == "declaration" and len(one.declares) == 1 and len(one.expressions) == 1:
        yield one.declares[0].name, one.expressions[0]
    elif one.kind == "declaration":
        yield from ((variable.name, value) for variable, value in one.initial_values())
    whole = one.expression
    if whole is not None and whole.kind == "assignment" and whole.operands[0].kind == "name":
        yield whole.operands[0].text, whole.operands[1]


def _places(program: Program, made: Expression) -> list[Expression]:
    """The places in memory that a value is one of, or a number made of."""
    if _place(program, made):
        return [made]
    if made.type.kind not in ("float", "half", "integer"):
        return []
    indices = {id(part) for one in made.under() if one.kind == "subscript" for index in one.operands[1:]
               for part in index.under()}  # fmt: skip
    return [part for part in made.under() if part.kind == "subscript" and id(part) not in indices][:_MOST]


def _place(program: Program, value: Expression) -> bool:
    """Whether something can be stored where it is read; a macro is taken at its word."""
    if value.kind == "call":
        return value.operator in program.macros and value.receiver is None
    return value.kind == "subscript" or (value.kind == "unary" and value.operator == "*")


def _reads(one: Statement, text: str) -> bool:
    return any(part.text == text for part in one.all_parts())


def _changes(program: Program, one: Statement, name: str) -> bool:
    return any(
        part.text == name and (part.assigned or _referred(program, part))
        for whole in one.whole_expressions()
        for part in whole.under()
    )


def _referred(program: Program, part: Expression) -> bool:
    """Whether it is given to a function as what that may change."""
    call = part.parent
    if call is None or call.kind != "call" or call.receiver is part:
        return False
    listed = program.functions.get(call.operator, ())
    given = [one.parameters[part.number] for one in listed if len(one.parameters) == len(call.operands)]
    return any(one.reference and "const" not in one.type.split() for one in given)
